// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>

#include <doctest/doctest.h>

#include "launched_ranks.hpp"
#include "training_processes.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("train: a signal to the first process ends all with a checkpoint; a rank that dies is named to all") {
    Training const training;
    auto const csv = training.out("run.csv");
    Words const flags{"--steps", "1000000", "--ranks", "processes", "--dp", "3", "--csv", csv};
    auto const ended = run_with(training, "run", flags, [&](pid_t process) {
        wait_for_lines(csv, 4);
        ::kill(process, SIGTERM);
    });
    CHECK_MESSAGE(ended.status == 128 + SIGTERM, ended.err);
    Answer const answer(ended.out);
    CHECK(answer.text("stopped_by") == "SIGTERM");
    CHECK(list_checkpoints(training.out("run")) == std::vector<std::int64_t>{answer.integer("steps")});
    std::vector<pid_t> others;
    auto const lost = run_with(training, "run", flags, [&](pid_t process) {
        others = ranks_of(process, 2);
        wait_for_lines(csv, static_cast<std::size_t>(answer.integer("steps")) + 5);
        ::kill(others.size() == 2 ? others[1] : process, SIGKILL);
    });
    CHECK(lost.status == 1);
    CHECK_MESSAGE(lost.says("rank 2: was ended by signal Killed"), lost.err);
    CHECK_MESSAGE(lost.says(", in phase "), lost.err);
    CHECK_MESSAGE(
        lost.says(
            "the same command goes on from the last checkpoint (--save-every N), by itself with --max-restarts K"),
        lost.err);
    CHECK(Answer(lost.out).text("schema") == "shardwise.error/1");
    for (auto const process : others) CHECK(::kill(process, 0) != 0);
}

TEST_CASE("train: ranks that die are started again with those that are left, and the bits are those of a whole run") {
    Training const training;
    auto const expected = training.train("whole", long_run(training.out("whole.csv"), {}));
    struct Fault {
        std::string name;
        Words flags;
        std::size_t processes;
        std::size_t rank;
        int signal;
        std::int64_t left;
        std::string cause;
    };
    for (auto const& fault : std::vector<Fault>{
             {"kill", {"--dp", "2"}, 2, 1, SIGKILL, 1, "rank 1 was ended by signal Killed"},
             {"first", {"--dp", "3", "--zero", "1"}, 3, 0, SIGSEGV, 2, "rank 0 was ended by signal Segmentation fault"},
             {"shared", {"--tp", "2"}, 2, 1, SIGKILL, 1, "rank 1 was ended by signal Killed"},
             {"stop", {"--dp", "2", "--timeout", "2"}, 2, 1, SIGSTOP, 1, "by rank 1 (stopped"}}) {
        CAPTURE(fault.name);
        auto const csv = training.out(fault.name + ".csv");
        auto flags = long_run(csv, fault.flags);
        flags.insert(flags.end(), {"--ranks", "processes", "--max-restarts", "1"});
        auto const ran = run_with(training, fault.name, flags, [&](pid_t process) {
            auto const ranks = ranks_of(process, fault.processes);
            wait_for_lines(csv, 35);
            // Checkpoints are written beside training.
            testing::comes_true(std::chrono::seconds(60),
                                [&] { return !list_checkpoints(training.out(fault.name)).empty(); });
            if (ranks.size() == fault.processes) ::kill(ranks[fault.rank], fault.signal);
        });
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        Answer const answer(ran.out);
        check_same(answer, expected);
        REQUIRE_MESSAGE(answer.size("restarts") == 1, ran.err);
        CHECK(answer.integer("restarts", 0U, "ranks") == fault.left);
        CHECK(answer.integer("restarts", 0U, "step") >= 25);
        CHECK(answer.integer("restarts", 0U, "step") % 25 == 0);
        CHECK(answer.text("restarts", 0U, "cause").find(fault.cause) != std::string::npos);
        // After a second of backing off; two are the goal, ten times as much the suite's limit.
        CHECK(answer.real("restarts", 0U, "seconds") > 0.9);
        CHECK(answer.real("restarts", 0U, "seconds") < 20.0);
        CHECK(compared_lines(csv) == compared_lines(training.out("whole.csv")));
        CHECK(read_text(training.out(fault.name) + "/step-000250/optimizer.safetensors") ==
              read_text(training.out("whole") + "/step-000250/optimizer.safetensors"));
    }
}

TEST_CASE("train: a run ends where restarts are used up or too few ranks are left, and at a signal, in good order") {
    Training const training;
    auto const csv = training.out("run.csv");
    auto const kill_last = [&](pid_t process) {
        auto const ranks = ranks_of(process, 2);
        wait_for_lines(csv, 4);
        if (ranks.size() == 2) ::kill(ranks[1], SIGKILL);
    };
    Words flags{"--steps",     "1000000", "--ranks",        "processes", "--dp",  "2",
                "--min-ranks", "2",       "--max-restarts", "3",         "--csv", csv};
    auto const few = run_with(training, "few", flags, kill_last);
    CHECK(few.status == 1);
    CHECK_MESSAGE(few.says("fewer ranks are left to train than --min-ranks allows (got 1"), few.err);
    CHECK(Answer(few.out).text("schema") == "shardwise.error/1");
    // What a start would meet again ends the run at once.
    auto const wrong = training.run("none", {"--ranks", "processes", "--max-restarts", "3", "--context", "65"});
    CHECK(wrong.status == 2);
    CHECK_FALSE(wrong.says("starting again"));
    CHECK(training.run("none", {"--max-restarts", "1", "--min-ranks", "2"}).status == 2);
    // Threads of one process die together, and are started together.
    std::filesystem::remove(csv);
    auto const together =
        run_with(training, "threads", {"--steps", "1000000", "--dp", "2", "--max-restarts", "1", "--csv", csv},
                 [&](pid_t process) {
                     auto const before = ranks_of(process, 1);
                     wait_for_lines(csv, 4);
                     if (before.size() == 1) ::kill(before[0], SIGKILL);
                     std::vector<pid_t> after;
                     testing::comes_true(std::chrono::seconds(30), [&] {
                         after = ranks_of(process, 1);
                         return after.size() == 1 && after != before;
                     });
                     // It begins at step 0 where there is no checkpoint.
                     testing::comes_true(std::chrono::seconds(30), [&] { return compared_lines(csv).size() < 3; });
                     wait_for_lines(csv, 3);
                     ::kill(process, SIGINT);
                 });
    CHECK_MESSAGE(together.status == 128 + SIGINT, together.err);
    Answer const answer(together.out);
    CHECK(answer.text("stopped_by") == "SIGINT");
    CHECK(answer.integer("restarts", 0U, "step") == 0);
    CHECK(answer.integer("restarts", 0U, "ranks") == 2);
    CHECK(list_checkpoints(training.out("threads")) == std::vector<std::int64_t>{answer.integer("steps")});
}

TEST_CASE("train: a run is started again after one second, then two, then four") {
    Training const training;
    std::vector<double> pauses;
    auto const ran =
        run_with(training, "pauses", {"--steps", "1000000", "--dp", "2", "--max-restarts", "3"}, [&](pid_t process) {
            std::vector<pid_t> before;
            auto killed = std::chrono::steady_clock::now();
            for (int start = 0; start < 4; ++start) {
                std::vector<pid_t> now;
                bool const is_there = testing::comes_true(std::chrono::seconds(60), [&] {
                    now = ranks_of(process, 1);
                    return now.size() == 1 && now != before;
                });
                auto const paused = std::chrono::steady_clock::now() - killed;
                if (start > 0) pauses.push_back(std::chrono::duration<double>(paused).count());
                before = now;
                killed = std::chrono::steady_clock::now();
                ::kill(is_there ? now[0] : process, SIGKILL);
            }
        });
    CHECK(ran.status == 1);
    CHECK_MESSAGE(ran.says("was ended by signal Killed, after 3 restarts"), ran.err);
    REQUIRE(pauses.size() == 3);
    // What is beyond is the machine's: a process ends and another one begins.
    double expected = 1.0;
    for (auto const pause : pauses) {
        CHECK(pause >= expected);
        expected *= 2.0;
    }
}

TEST_CASE(
    "train: ranks that a launcher starts again go on from their own checkpoints, whatever --resume said at first") {
    Training const training;
    auto const expected = training.train("whole", long_run(training.out("whole.csv"), {}));
    auto const csv = training.out("run.csv");
    Words words{SHARDWISE_PROGRAM, "launch", "--nproc", "2", "--prefix", "none", "--max-restarts", "1", "--",
                SHARDWISE_PROGRAM};
    auto const command = training.words("run", long_run(csv, {"--resume", "none"}));
    words.insert(words.end(), command.begin(), command.end());
    auto const ran = run_command_line(words, {}, [&](pid_t process) {
        auto const ranks = ranks_of(process, 2);
        wait_for_lines(csv, 35);
        testing::comes_true(std::chrono::seconds(60), [&] { return !list_checkpoints(training.out("run")).empty(); });
        if (ranks.size() == 2) ::kill(ranks[1], SIGKILL);
    });
    REQUIRE_MESSAGE(ran.status == 0, ran.err);
    CHECK_MESSAGE(ran.says("restart"), ran.err);
    // Behind the document of the first start's error.
    check_same(Answer(ran.out.substr(ran.out.rfind("\n{") + 1)), expected);
    CHECK(compared_lines(csv) == compared_lines(training.out("whole.csv")));
    CHECK_FALSE(exists(training.out("run") + "/.begun"));
    // Which is not asked for by a launcher's first start.
    auto const first = run_command_line(words);
    CHECK_MESSAGE((first.status != 0 && first.says("would be removed by a run that begins at step 0")), first.err);
}

TEST_SUITE("long") {
    TEST_CASE("train: ranks that die at any moment, in a checkpoint too, leave the bits of a whole run") {
        Training const training;
        // Validation takes a good part of the time, so that moments are in it, too.
        auto const with = [&](std::string const& name, Words const& flags) {
            Words all{"--steps",      "120", "--save-every",  "10", "--keep", "2",
                      "--valid-part", "0.3", "--valid-every", "5",  "--csv",  training.out(name + ".csv")};
            all.insert(all.end(), flags.begin(), flags.end());
            return all;
        };
        auto const expected = training.train("whole", with("whole", {}));
        std::vector<Words> const degrees{
            {"--dp", "2"}, {"--dp", "3", "--zero", "2"}, {"--tp", "2", "--dp", "2", "--zero", "1"}};
        std::vector<std::size_t> const counts{2, 3, 4};
        std::uint64_t state = 1;
        auto const draw = [&state](std::uint64_t below) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            return (state >> 33U) % below;
        };
        int hits = 0;
        int runs = 0;
        for (int const signal : {SIGKILL, SIGSEGV, SIGABRT, SIGSTOP}) {
            for (int i = 0; i < 8; ++i) {
                auto const which = static_cast<std::size_t>(draw(degrees.size()));
                auto const victim = static_cast<std::size_t>(draw(counts[which]));
                auto const line = static_cast<std::size_t>(draw(100));
                auto const delay = std::chrono::microseconds(draw(60'000));
                bool const is_saving = i % 4 == 3;
                auto const name = std::to_string(signal) + "-" + std::to_string(i);
                CAPTURE(name);
                CAPTURE(victim);
                CAPTURE(line);
                auto flags = degrees[which];
                flags.insert(flags.end(), {"--ranks", "processes", "--max-restarts", "1", "--timeout", "3"});
                auto const ran = run_with(training, name, with(name, flags), [&](pid_t process) {
                    auto const ranks = ranks_of(process, counts[which]);
                    // Of no line: while model and data are read.
                    if (line > 5) wait_for_lines(training.out(name + ".csv"), line);
                    if (is_saving)
                        testing::comes_true(std::chrono::seconds(2), [&] {
                            for (auto const& each : shardwise::detail::entries_of(training.out(name)))
                                if (each.starts_with(".saving-")) return true;
                            return false;
                        });
                    else
                        std::this_thread::sleep_for(delay);
                    if (ranks.size() == counts[which]) ::kill(ranks[victim], signal);
                });
                REQUIRE_MESSAGE(ran.status == 0, ran.err);
                Answer const answer(ran.out);
                check_same(answer, expected);
                hits += answer.size("restarts") == 1 ? 1 : 0;
                ++runs;
                CHECK(compared_lines(training.out(name + ".csv")) == compared_lines(training.out("whole.csv")));
                CHECK(read_text(training.out(name) + "/step-000120/optimizer.safetensors") ==
                      read_text(training.out("whole") + "/step-000120/optimizer.safetensors"));
                for (auto const& each : shardwise::detail::entries_of(training.out(name)))
                    CHECK_FALSE(each.starts_with("."));
            }
        }
        // Others were over before.
        CHECK(2 * hits > runs);
    }

    TEST_CASE("train: a rank that stands still for less than the timeout is no failure") {
        Training const training;
        auto const csv = training.out("run.csv");
        auto const ran = run_with(training, "run",
                                  {"--steps", "150", "--csv", csv, "--dp", "2", "--ranks", "processes",
                                   "--max-restarts", "1", "--timeout", "5"},
                                  [&](pid_t process) {
                                      auto const ranks = ranks_of(process, 2);
                                      wait_for_lines(csv, 20);
                                      if (ranks.size() != 2) return;
                                      ::kill(ranks[1], SIGSTOP);
                                      std::this_thread::sleep_for(std::chrono::seconds(3));
                                      ::kill(ranks[1], SIGCONT);
                                  });
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        CHECK(Answer(ran.out).size("restarts") == 0);
    }
}
