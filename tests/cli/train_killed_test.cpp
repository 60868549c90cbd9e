// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>

#include <doctest/doctest.h>

#include "launched_ranks.hpp"
#include "marked_processes.hpp"
#include "skip.hpp"
#include "training_processes.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

constexpr char const* mark = "SHARDWISE_TRAIN_KILLED";

/// Every file and folder below one: its size and when it was written last.
auto snapshot(std::string const& folder) {
    std::map<std::string, std::pair<std::uintmax_t, std::filesystem::file_time_type>> out;
    std::error_code problem;
    for (auto const& entry : std::filesystem::recursive_directory_iterator(folder, problem))
        out[entry.path()] = {entry.is_regular_file() ? entry.file_size() : 0, entry.last_write_time()};
    return out;
}

/// Kills what has started a run, while every step is saved: no rank lives on or writes, and a run goes on with the bits of a whole one.
class KilledLaunchers {
public:
    /// `starter` comes before the command line of `train`, which ends with `more`.
    void kill(std::string const& name, Words const& starter, Words const& more) const {
        CAPTURE(name);
        auto const folder = training_.out(name);
        auto words = starter;
        Words all{"--steps", "20000", "--save-every", "1"};
        all.insert(all.end(), more.begin(), more.end());
        auto const command = training_.words(name + "/out", flags(name + "/run", all));
        words.insert(words.end(), command.begin(), command.end());
        std::filesystem::create_directory(folder);
        auto const value = std::to_string(::getpid()) + "-" + name;
        auto const ran = run_command_line(words, {{mark, value}}, [&](pid_t process) {
            wait_for_lines(folder + "/run.csv", 5);
            testing::comes_true(60s, [&] { return !list_checkpoints(folder + "/out").empty(); });
            CHECK(testing::count_marked(mark, value) >= 2);
            ::kill(process, SIGKILL);
        });
        CHECK_MESSAGE(ran.status == -1, ran.err);
        // A death is noticed within 250 ms; ten times as much is the suite's limit.
        CHECK(testing::comes_true(2500ms, [&] { return testing::count_marked(mark, value) == 0; }));
        auto const left = snapshot(folder);
        std::this_thread::sleep_for(100ms);
        CHECK((snapshot(folder) == left));
        auto const saved = list_checkpoints(folder + "/out");
        REQUIRE_FALSE(saved.empty());
        auto const last = saved.front() + 3;
        auto const to_last = [&](std::string const& out, std::string const& csv) {
            return training_.train(out, flags(csv, {"--steps", std::to_string(last), "--resume", "auto"}));
        };
        check_same(to_last(name + "/out", name + "/run"), to_last(name + "-whole", name + "-whole"));
        CHECK(compared_lines(folder + "/run.csv") == compared_lines(training_.out(name + "-whole.csv")));
        CHECK(shardwise::detail::entries_of(folder + "/out") ==
              Words{checkpoint_name(saved.front()), checkpoint_name(last), "tokens"});
    }
    /// Whether ranks can be MPI's here.
    [[nodiscard]] bool has_mpi() const {
        auto const ran = run_command_line(mpirun(1, training_.words("mpi-one", {"--steps", "1", "--ranks", "mpi"})));
        return ran.status != 127 && !ran.says("is not built into");
    }

private:
    [[nodiscard]] Words flags(std::string const& csv, Words const& more) const {
        Words all{"--schedule", "constant", "--csv", training_.out(csv + ".csv")};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }

    Training training_;
};

/// What starts two ranks of a command line as torchrun's agent does, whose variables they have.
Words agent() {
    auto const port = std::to_string(20000 + ::getpid() % 30000);
    auto const script =
        "for rank in 0 1; do RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_PORT=" + port +
        " MASTER_ADDR=127.0.0.1 TORCHELASTIC_RUN_ID=none \"$@\" & done; wait";
    return {"bash", "-c", script, "agent", SHARDWISE_PROGRAM};
}

}  // namespace

TEST_CASE(
    "train: kill -9 of what started a run leaves no rank that still writes, and a run goes on with the bits of a whole "
    "one") {
    KilledLaunchers const runs;
    auto const launch = [](Words const& more) {
        Words all{SHARDWISE_PROGRAM, "launch", "--nproc", "3", "--prefix", "none"};
        all.insert(all.end(), more.begin(), more.end());
        all.insert(all.end(), {"--", SHARDWISE_PROGRAM});
        return all;
    };
    // The first rank itself is who started the others.
    runs.kill("first", {SHARDWISE_PROGRAM}, {"--ranks", "processes", "--dp", "3", "--zero", "1"});
    runs.kill("watched", {SHARDWISE_PROGRAM}, {"--ranks", "processes", "--pp", "2", "--max-restarts", "1"});
    runs.kill("threads", {SHARDWISE_PROGRAM}, {"--dp", "2", "--max-restarts", "1"});
    runs.kill("launched", launch({}), {"--zero", "2"});
    runs.kill("again", launch({"--max-restarts", "1"}), {});
    runs.kill("agent", agent(), {});
    if (!runs.has_mpi()) return testing::note_absent_tool("MPI");
    runs.kill("mpi", mpirun(2, {}), {});
}
