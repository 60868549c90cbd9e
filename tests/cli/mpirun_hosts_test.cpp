// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"
#include "shell.hpp"
#include "skip.hpp"
#include "small_llama.hpp"

#include <string>
#include <unistd.h>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

/// Two network namespaces with a link between them, 10.77.0.1 and 10.77.0.2, which mpirun takes for machines: each process
/// has a host name of its own there.
class TwoMachines {
public:
    TwoMachines() {
        auto const a = name(0), b = name(1);
        auto const make = "ip netns add " + a + " && ip netns add " + b + " && ip -n " + a +
                          " link add sw0 type veth peer name sw1 netns " + b + " && ip -n " + a +
                          " addr add 10.77.0.1/24 dev sw0 && ip -n " + b + " addr add 10.77.0.2/24 dev sw1 && ip -n " + a +
                          " link set sw0 up && ip -n " + b + " link set sw1 up && ip -n " + a + " link set lo up && ip -n " +
                          b + " link set lo up";
        is_made_ = run_in_shell(make).status == 0;
        agent_ = folder_.write("agent", "#!/bin/sh\nh=$1\nshift\ncase $h in 10.77.0.1) n=" + a + ";; *) n=" + b +
                                            ";; esac\nexec ip netns exec $n unshare -u sh -c \"hostname $n; exec sh -c '$*'\"\n");
        (void)run_in_shell("chmod +x " + agent_);
    }
    TwoMachines(TwoMachines const&) = delete;
    TwoMachines& operator=(TwoMachines const&) = delete;
    ~TwoMachines() { (void)run_in_shell("ip netns del " + name(0) + "; ip netns del " + name(1)); }

    [[nodiscard]] bool is_made() const { return is_made_; }

    /// Runs a line of shell on the first machine; Open MPI starts its daemon on the other through the agent.
    [[nodiscard]] Ran run_on_first(std::string const& line) const {
        std::string const program = SHARDWISE_PROGRAM;
        auto const bin = program.substr(0, program.rfind('/'));
        auto const script = folder_.write("line.sh", "hostname " + name(0) + "\nPATH=" + bin + ":$PATH\n" + line);
        return run_command_line({"timeout", "100", "ip", "netns", "exec", name(0), "unshare", "-u", "sh", script},
                                {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                 {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                 {"OMPI_MCA_plm_rsh_agent", agent_},
                                 {"OMPI_MCA_btl_tcp_if_include", "10.77.0.0/24"},
                                 {"OMPI_MCA_oob_tcp_if_include", "10.77.0.0/24"}});
    }

private:
    [[nodiscard]] std::string name(int machine) const {
        return "swm" + std::to_string(owner_) + (machine == 0 ? "a" : "b");
    }

    TemporaryFolder folder_;
    pid_t owner_ = ::getpid();
    std::string agent_;
    bool is_made_ = false;
};

}  // namespace

TEST_CASE("launch mpirun: the line of a plan runs over two machines with the tokens of one") {
    TwoMachines const machines;
    if (!machines.is_made() || !is_installed("mpirun")) {
        testing::note_absent_tool("mpirun and ip netns (openmpi-bin, iproute2, and the right to make network namespaces)");
        return;
    }
    SmallLlama const model;
    std::vector<std::string> const prompt{"--prompt-ids", "5,9,2", "--max-new-tokens", "6", "--deterministic", "--json"};
    std::vector<std::string> words{"run", model.folder.path(), "--kv-dtype", "bf16"};
    words.insert(words.end(), prompt.begin(), prompt.end());
    auto const expected = ids_of(run(words).out);
    REQUIRE(!expected.empty());

    auto const plan = run({"plan", model.folder.path(), "--devices", "2x(2xH100-80GB)", "--tp", "2", "--pp", "2", "--json"});
    REQUIRE_MESSAGE(plan.status == 0, plan.err);
    words = {"launch", "mpirun", "--plan", model.folder.write("plan.json", plan.out), "--hosts", "10.77.0.1,10.77.0.2", "--"};
    auto const where = machines.run_on_first(run([&] {
                                                 auto all = words;
                                                 all.insert(all.end(), {"sh", "-c", "echo at `hostname | tail -c 2` x"});
                                                 return all;
                                             }())
                                                 .out);
    CHECK_MESSAGE(where.status == 0, where.err);
    for (auto const* const place : {"at a", "at b"}) {
        auto const first = where.out.find(place);
        CHECK_MESSAGE(first != std::string::npos, where.out);
        CHECK_MESSAGE(where.out.find(place, first + 1) != std::string::npos, where.out);
    }
    words.insert(words.end(), prompt.begin(), prompt.end());
    auto const line = run(words);
    REQUIRE_MESSAGE(line.status == 0, line.err);
    auto const ran = machines.run_on_first(line.out);
    if (ran.says("is not built into")) {
        testing::note_absent_tool("MPI");
        return;
    }
    CHECK_MESSAGE(ran.status == 0, ran.err);
    CHECK_MESSAGE(ids_of(ran.out) == expected, ran.out);
}
