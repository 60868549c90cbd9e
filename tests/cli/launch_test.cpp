// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "fake_machine.hpp"
#include "program.hpp"
#include "shell.hpp"
#include "skip.hpp"
#include "small_llama.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace shardwise::tests;
using shardwise::testing::FakeMachine;
namespace machines = shardwise::testing::machines;

namespace {

Ran launch(std::vector<std::string> words, std::string const& script,
           std::vector<std::pair<std::string, std::string>> const& more = {}) {
    words.insert(words.begin(), "launch");
    words.insert(words.end(), {"--", "sh", "-c", script});
    return run(words, more);
}
std::vector<std::string> sorted_lines(std::string const& text) {
    auto lines = lines_of(text);
    std::sort(lines.begin(), lines.end());
    return lines;
}
/// Launches, and sends these signals once each rank has said "ready".
Ran interrupt(std::vector<std::string> words, std::string const& script, std::vector<int> const& signals) {
    TemporaryFolder const folder;
    words.insert(words.begin(), {SHARDWISE_PROGRAM, "launch"});
    words.insert(words.end(), {"--", "sh", "-c", script});
    return run_command_line(words, {{"READY", folder.path()}}, [&](pid_t process) {
        auto const is_ready = [&] { return ::access((folder.path() + "/1").c_str(), F_OK) == 0; };
        for (int i = 0; i < 1000 && !is_ready(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        for (int const signal : signals) {
            ::kill(process, signal);
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
    });
}

}  // namespace

TEST_CASE("launch: each process gets torchrun's variables, its lines their rank") {
    auto const ran = launch({"--nproc", "3", "--max-restarts", "2"},
                            "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR "
                            "$TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS ${TORCHELASTIC_RUN_ID:+run} "
                            "${OMP_NUM_THREADS:+threads} ${MASTER_PORT:+port}; printf no-end >&2");
    CHECK(ran.status == 0);
    std::vector<std::string> wanted;
    std::vector<std::string> errors;
    for (std::string const rank : {"0", "1", "2"}) {
        wanted.push_back("[rank" + rank + "] " + rank + " 3 " + rank + " 3 0 127.0.0.1 0 2 run threads port");
        errors.push_back("[rank" + rank + "] no-end");
    }
    CHECK(sorted_lines(ran.out) == wanted);
    CHECK(sorted_lines(ran.err) == errors);
}

TEST_CASE("launch: without a prefix lines are as they were written; one process is the default") {
    auto const ran = launch({"--prefix", "none"}, "echo \"$RANK of $WORLD_SIZE\"; printf 'a\\tb\\r\\n'");
    CHECK(ran.status == 0);
    CHECK(ran.out == "0 of 1\na\tb\r\n");
}

TEST_CASE("launch: the second of two machines") {
    auto const ran = launch(
        {"--nproc", "2", "--nnodes", "2", "--node-rank", "1", "--master-addr", "10.1.2.3", "--master-port", "29501"},
        "echo $RANK $WORLD_SIZE $LOCAL_RANK $GROUP_RANK $MASTER_ADDR:$MASTER_PORT $TORCHELASTIC_RUN_ID");
    CHECK(ran.status == 0);
    CHECK(sorted_lines(ran.out) == std::vector<std::string>{"[rank2] 2 4 0 1 10.1.2.3:29501 10.1.2.3-29501",
                                                            "[rank3] 3 4 1 1 10.1.2.3:29501 10.1.2.3-29501"});
}

TEST_CASE("launch: wrong flags are usage errors that name the flag") {
    std::vector<std::pair<std::vector<std::string>, std::string>> const wrong{
        {{"--nproc", "0"}, "--nproc"},
        {{"--nproc", "x"}, "--nproc"},
        {{"--grace", "-1"}, "--grace"},
        {{"--grace", "nan"}, "--grace"},
        {{"--prefix", "all"}, "--prefix"},
        {{"--bind", "core"}, "--bind"},
        {{"--log-dir", ""}, "--log-dir"},
        {{"--node-rank", "1"}, "--node-rank"},
        {{"--master-port", "70000"}, "--master-port"},
        {{"--nnodes", "2"}, "--node-rank: is missing"},
        {{"--nnodes", "2", "--node-rank", "0"}, "--master-addr: is missing"},
        {{"--nnodes", "2", "--node-rank", "0", "--master-addr", "a"}, "--master-port: is missing"},
        {{"--nnodes", "2", "--node-rank", "0", "--master-addr", "a", "--master-port", "1", "--max-restarts", "1"},
         "--max-restarts: is for one machine"}};
    for (auto const& [words, said] : wrong) {
        std::string const& text = said;
        CAPTURE(text);
        auto const ran = launch(words, "exit 0");
        CHECK(ran.status == 2);
        CHECK_MESSAGE(ran.says(text), ran.err);
    }
    CHECK(run({"launch", "--nproc", "2"}).status == 2);
}

TEST_CASE("launch: a command that cannot start is named") {
    auto const ran = run({"launch", "--nproc", "2", "--", "shardwise-no-such-program", "x"});
    CHECK(ran.status == 1);
    CHECK(ran.says("shardwise-no-such-program: cannot be started: there is no such program"));
    CHECK(run({"launch", "--", "/"}).status == 1);
}

TEST_CASE("launch: the first failure ends all, and is told with its last lines of stderr") {
    auto const begin = std::chrono::steady_clock::now();
    auto const ran = launch({"--nproc", "3", "--grace", "0.2"},
                            "if [ $RANK = 1 ]; then sleep 0.1; seq 1 30 >&2; exit 7; fi; trap '' TERM; sleep 100");
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
    CHECK(ran.status == 1);
    auto const at = ran.err.find("shardwise: rank 1 failed: exit code 7 after ");
    REQUIRE(at != std::string::npos);
    CHECK_MESSAGE(
        ran.err.find(", all devices); its last 20 lines of stderr:\n  | 11\n  | 12\n", at) != std::string::npos,
        ran.err);
    CHECK(ran.err.find("  | 30\n", at) != std::string::npos);
    CHECK_FALSE(ran.says("  | 10\n"));
    CHECK_FALSE(ran.says("rank 0 failed"));
    CHECK_FALSE(ran.says("rank 2 failed"));
}

TEST_CASE("launch: a signal is told by number and name") {
    auto const ran = launch({"--nproc", "2"}, "[ $RANK = 0 ] || kill -SEGV $$; sleep 100");
    CHECK(ran.status == 1);
    CHECK_MESSAGE(ran.says("shardwise: rank 1 failed: signal 11 (Segmentation fault)"), ran.err);
}

TEST_CASE("launch: an OOM kill that the control group counted is told") {
    FakeMachine machine;
    auto const events = machine.options().root + "/sys/fs/cgroup/memory.events";
    machine.put("/proc/self/cgroup", "0::/\n");
    machine.put("/sys/fs/cgroup/memory.events", "oom 0\noom_kill 4\n");
    auto const ran = launch(
        {"--nproc", "2"}, "[ $RANK = 0 ] && sleep 100; printf 'oom 1\\noom_kill 5\\n' > " + events + "; kill -KILL $$",
        {{"SHARDWISE_SYSTEM_ROOT", machine.options().root}});
    CHECK(ran.status == 1);
    CHECK_MESSAGE(ran.says("rank 1 failed: signal 9 (Killed), OOM kill: the control group counted one"), ran.err);
}

TEST_CASE("launch: the same status for every exit code of a rank; 130, 143 and 129 after signals") {
    CHECK(launch({}, "exit 3").status == 1);
    CHECK(launch({}, "exit 130").status == 1);
    for (auto const& [sent, status] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}, std::pair{SIGHUP, 129}}) {
        int const signal = sent;
        CAPTURE(signal);
        auto const ran = interrupt(
            {"--nproc", "2"},
            "trap 'echo heard; exit 0' INT TERM HUP; touch $READY/$RANK; while :; do sleep 0.02; done", {signal});
        CHECK(ran.status == status);
        CHECK(ran.out.find("heard") != std::string::npos);
        CHECK_FALSE(ran.says("failed"));
    }
}

TEST_CASE("launch: a second SIGINT kills at once") {
    auto const begin = std::chrono::steady_clock::now();
    auto const ran = interrupt({"--nproc", "2", "--grace", "100"}, "trap '' INT TERM; touch $READY/$RANK; sleep 100",
                               {SIGINT, SIGINT});
    CHECK(ran.status == 130);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

TEST_CASE("launch: restarts start all anew, with a new port and count, and say so") {
    auto const ran = launch({"--nproc", "2", "--max-restarts", "3"},
                            "echo $TORCHELASTIC_RESTART_COUNT $MASTER_PORT; [ $RANK = 0 ] || exit 0; sleep 0.1; "
                            "[ $TORCHELASTIC_RESTART_COUNT = 2 ]");
    CHECK(ran.status == 0);
    std::map<std::string, std::set<std::string>> ports;
    for (auto const& line : lines_of(ran.out)) {
        std::istringstream words(line);
        std::string rank, count, port;
        words >> rank >> count >> port;
        ports[count].insert(port);
    }
    REQUIRE(ports.size() == 3);
    std::set<std::string> all;
    for (auto const& [count, own] : ports) {
        CHECK(own.size() == 1);
        all.insert(*own.begin());
    }
    CHECK(all.size() == 3);
    CHECK(ran.says("starting all ranks anew, 2 of 3"));
    auto const failed = launch({"--max-restarts", "1"}, "echo try; exit 5");
    CHECK(failed.status == 1);
    CHECK(failed.out == "[rank0] try\n[rank0] try\n");
}

TEST_CASE("launch: log files hold each rank's output") {
    TemporaryFolder const folder;
    auto const logs = folder.path() + "/logs";
    auto const ran = launch({"--nproc", "2", "--log-dir", logs}, "echo out $RANK; printf err >&2");
    CHECK(ran.status == 0);
    CHECK(sorted_lines(ran.out) == std::vector<std::string>{"[rank0] out 0", "[rank1] out 1"});
    CHECK(read_text(logs + "/rank.1.out") == "out 1\n");
    CHECK(read_text(logs + "/rank.0.err") == "err");
    auto const refused = launch({"--log-dir", "/dev/null/logs"}, "echo never");
    CHECK(refused.status == 1);
    CHECK(refused.says("/dev/null/logs"));
    CHECK(refused.out.empty());
}

TEST_CASE("launch: each process is shown one device by its UUID, and bound near to it") {
    FakeMachine machine;
    machine.nvidia(std::string(machines::one_gpu) +
                   "gpu name=\"NVIDIA GeForce RTX 4090\" uuid=GPU-2222 pci=00000000:02:00.0 memory=25757220864\n");
    std::vector<std::pair<std::string, std::string>> const where{
        {"SHARDWISE_NVML", machine.options().nvml_library},
        {"SHARDWISE_AMD_SMI", machine.options().amd_smi_libraries[0]},
        {"SHARDWISE_SYSTEM_ROOT", machine.options().root}};
    auto const ran = launch({"--nproc", "2", "--mask-devices", "--bind", "numa"},
                            "echo $CUDA_VISIBLE_DEVICES; [ $RANK = 0 ] || sleep 0.2; exit $RANK", where);
    CHECK(ran.status == 1);
    auto const lines = sorted_lines(ran.out);
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].find("[rank0] GPU-") == 0);
    CHECK(lines[1] == "[rank1] GPU-2222");
    CHECK_MESSAGE(ran.says(", device GPU-2222)"), ran.err);
    auto const few = launch({"--nproc", "3", "--mask-devices"}, "exit 0", where);
    CHECK(few.status == 4);
    FakeMachine none;
    auto const without = launch({"--nproc", "2", "--mask-devices"}, "echo started",
                                {{"SHARDWISE_NVML", none.options().nvml_library},
                                 {"SHARDWISE_AMD_SMI", none.options().amd_smi_libraries[0]},
                                 {"SHARDWISE_SYSTEM_ROOT", none.options().root}});
    CHECK(without.status == 0);
    CHECK(without.says("warning: there is no device to mask"));
}

TEST_CASE("launch: 100 MB from 4 ranks lose no line and mix none") {
    TemporaryFolder const folder;
    // 25 MB from each, half of it to stderr, in lines of 1000 letters that say their rank and number.
    auto const script =
        "awk -v r=$RANK 'BEGIN { s = sprintf(\"%990s\", \"\"); gsub(/ /, r, s); for (i = 0; i < 12500; ++i) { "
        "printf \"%06d %s\\n\", i, s; printf \"%06d %s\\n\", i, s > \"/dev/stderr\" } }'";
    auto const ran = launch({"--nproc", "4"}, script);
    CHECK(ran.status == 0);
    for (auto const* stream : {&ran.out, &ran.err}) {
        int next[4] = {0, 0, 0, 0};
        int wrong = 0;
        for (auto const& line : lines_of(*stream)) {
            auto const rank = line.size() == 1005 ? line[5] - '0' : -1;
            if (rank < 0 || rank > 3 || line.compare(0, 5, "[rank") != 0) {
                ++wrong;
                continue;
            }
            if (std::stoi(line.substr(8, 6)) != next[rank]++) ++wrong;
            if (line.find_first_not_of(static_cast<char>('0' + rank), 15) != std::string::npos) ++wrong;
        }
        CHECK(wrong == 0);
        for (int const count : next) CHECK(count == 12500);
    }
}

TEST_CASE("launch: it ends when nobody reads its output") {
    auto const ran = run_in_shell("{ ( " + std::string(SHARDWISE_PROGRAM) +
                                  " launch --nproc 2 --grace 0.2 -- yes; echo status $? >&2 ) | head -n 1; }");
    CHECK_MESSAGE(ran.out.find("status 1") != std::string::npos, ran.out);
    CHECK(ran.out.find("the standard output: Broken pipe") != std::string::npos);
}

TEST_CASE("launch: two ranks of shardwise run give the tokens of threads") {
    SmallLlama const model;
    std::vector<std::string> const words{
        "run", model.folder.path(), "--prompt-ids", "5,17,3,42", "--max-new-tokens", "8", "--json"};
    auto const ids = [](Ran const& ran) {
        CHECK_MESSAGE(ran.status == 0, ran.err);
        Answer const answer(ran.out);
        std::string out;
        for (std::size_t i = 0; i < answer.size("token_ids"); ++i)
            out += std::to_string(answer.integer("token_ids", i)) + " ";
        return out + "by " + std::to_string(answer.size("memory", "ranks"));
    };
    auto threads = words;
    threads.insert(threads.end(), {"--tp", "2"});
    std::vector<std::string> launched{"launch", "--nproc", "2", "--prefix", "none", "--", SHARDWISE_PROGRAM};
    launched.insert(launched.end(), words.begin(), words.end());
    auto const wanted = ids(run(threads));
    CHECK(wanted.size() > 8);
    CHECK(ids(run(launched)) == wanted);
}

TEST_SUITE("long") {
    TEST_CASE("launch: torch's ranks meet and add, anew after a restart, too") {
        // The oracle: torch.distributed's own reader of these variables.
        char const* const python = std::getenv("SHARDWISE_PYTHON");
        if (python == nullptr) SHARDWISE_SKIP("SHARDWISE_PYTHON names no Python with torch");
        if (run_command_line({python, "-c", "import torch.distributed"}).status != 0)
            SHARDWISE_SKIP("SHARDWISE_PYTHON has no torch");
        TemporaryFolder const folder;
        auto const script = folder.path() + "/sum.py";
        std::ofstream(script)
            << "import os, sys, torch, torch.distributed as dist\n"
               "dist.init_process_group('gloo')\n"
               "x = torch.tensor([float(dist.get_rank() + 1)])\n"
               "dist.all_reduce(x)\n"
               "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and dist.get_rank() == 1: sys.exit(9)\n"
               "dist.barrier()\n"
               "print('sum', int(x.item()), 'of', dist.get_world_size())\n"
               "dist.destroy_process_group()\n";
        auto const ran = run({"launch", "--nproc", "3", "--max-restarts", "1", "--", python, script});
        CHECK_MESSAGE(ran.status == 0, ran.err);
        CHECK(ran.says("rank 1 failed: exit code 9"));
        for (std::string const rank : {"0", "1", "2"})
            CHECK_MESSAGE(ran.out.find("[rank" + rank + "] sum 6 of 3\n") != std::string::npos, ran.out);
    }
}
