// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>

#include <doctest/doctest.h>

#include "launched_ranks.hpp"
#include "marked_processes.hpp"
#include "skip.hpp"
#include "training.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

using Words = std::vector<std::string>;

/// The processes that one has started as its ranks, by their numbers: rank 0 is the first where the ranks may be started again.
std::vector<pid_t> ranks_of(pid_t process, std::size_t count) {
    std::vector<pid_t> out;
    // One guard is their parent.
    testing::comes_true(std::chrono::seconds(30), [&] {
        auto const guards = testing::children_of(process);
        out = guards.size() == 1 ? testing::children_of(guards[0]) : std::vector<pid_t>{};
        return out.size() == count;
    });
    return out;
}

void wait_for_lines(std::string const& csv, std::size_t lines) {
    testing::comes_true(std::chrono::seconds(60), [&] { return compared_lines(csv).size() >= lines; });
}

/// Checks that a run gave what another one did, as far as ranks and restarts have no part in it.
void check_same(Answer const& answer, Answer const& expected) {
    CHECK(answer.text("weights_hash") == expected.text("weights_hash"));
    for (auto const* const key : {"first", "last", "valid", "best_valid"})
        CHECK(answer.real("loss", key) == expected.real("loss", key));
    CHECK(answer.integer("tokens") == expected.integer("tokens"));
}

/// What runs of the cases of restarts have in common: long enough for a rank to be ended in their midst.
Words long_run(std::string const& csv, Words const& more) {
    Words all{"--steps", "250", "--save-every", "25", "--keep", "3", "--csv", csv};
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

Ran run_with(Training const& training, std::string const& name, Words const& more,
             std::function<void(pid_t)> const& meanwhile) {
    auto words = training.words(name, more);
    words.insert(words.begin(), SHARDWISE_PROGRAM);
    return run_command_line(words, {}, meanwhile);
}

}  // namespace

TEST_CASE(
    "train: ranks that are processes give the bits of threads, with the memory and traffic of weights of their own") {
    Training const training;
    Words const flags{"--steps",     "4",     "--save-every", "2",   "--keep",        "2",
                      "--optimizer", "adamw", "--valid-part", "0.1", "--valid-every", "2"};
    for (auto const& degrees : std::vector<Words>{{"--dp", "2"},
                                                  {"--dp", "3", "--zero", "2"},
                                                  {"--tp", "2", "--dp", "2"},
                                                  {"--pp", "2", "--dp", "2", "--micro-batch", "1"}}) {
        CAPTURE(degrees);
        auto words = flags;
        words.insert(words.end(), degrees.begin(), degrees.end());
        auto const name = degrees[1] + degrees.back();
        auto threads = words;
        threads.insert(threads.end(), {"--csv", training.out(name + "t.csv")});
        auto const expected = training.train(name + "t", threads);
        words.insert(words.end(), {"--ranks", "processes", "--csv", training.out(name + "p.csv")});
        auto const answer = training.train(name + "p", words);
        check_same(answer, expected);
        CHECK(answer.text("options", "ranks") == "processes");
        REQUIRE(answer.size("memory", "ranks") == expected.size("memory", "ranks"));
        // Threads that are data-parallel alone train one copy of the weights.
        bool const has_copies = degrees.front() != "--dp";
        for (std::size_t rank = 0; rank < answer.size("memory", "ranks"); ++rank) {
            for (auto const* const key : {"predicted", "peak"}) {
                auto const own = answer.integer("memory", "ranks", rank, key);
                auto const of_thread = expected.integer("memory", "ranks", rank, key);
                CHECK((has_copies ? own == of_thread : own >= of_thread));
            }
            CHECK(answer.integer("memory", "ranks", rank, "peak") <=
                  answer.integer("memory", "ranks", rank, "predicted"));
        }
        for (auto const* const key : {"bytes", "messages"}) {
            auto const own = answer.integer("communication", key);
            CHECK((has_copies ? own == expected.integer("communication", key)
                              : own > expected.integer("communication", key)));
        }
        CHECK(compared_lines(training.out(name + "p.csv")) == compared_lines(training.out(name + "t.csv")));
        for (auto const* const file : {"model.safetensors", "optimizer.safetensors", "trainer_state.json"})
            CHECK(read_text(training.out(name + "p/step-000002/") + file) ==
                  read_text(training.out(name + "t/step-000002/") + file));
    }
}

TEST_CASE(
    "train --mode auto: shares a launcher's ranks as they can be, keeps to degrees that are given, else trains on "
    "one") {
    Training const training;
    auto const hash = training.train("one", {"--steps", "3"}).text("weights_hash");
    auto const launch = [&](std::string const& name, std::string const& ranks, Words more) {
        Words all{"launch", "--nproc", ranks, "--prefix", "none", "--", SHARDWISE_PROGRAM};
        more.insert(more.end(), {"--steps", "3"});
        auto const words = training.words(name, more);
        all.insert(all.end(), words.begin(), words.end());
        return run(all);
    };
    struct Case {
        Words flags;
        std::string ranks;
        std::int64_t dp, tp, pp;
    };
    std::int64_t number = 0;
    for (auto const& one : {Case{{}, "2", 2, 1, 1}, Case{{"--mode", "auto", "--pp", "2"}, "4", 2, 1, 2},
                            Case{{"--mode", "auto", "--dp", "1", "--tp", "1"}, "2", 1, 1, 2}}) {
        CAPTURE(one.flags);
        auto const ran = launch("auto" + std::to_string(++number), one.ranks, one.flags);
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        Answer const answer(ran.out);
        CHECK(answer.text("weights_hash") == hash);
        CHECK(answer.integer("plan", "dp") == one.dp);
        CHECK(answer.integer("plan", "tp") == one.tp);
        CHECK(answer.integer("plan", "pp") == one.pp);
        CHECK(answer.is_null("plan", "fallback"));
    }
    // Five ranks are no product of what four sequences, four heads and two layers allow.
    auto const alone = launch("alone", "5", {"--mode", "auto"});
    REQUIRE_MESSAGE(alone.status == 0, alone.err);
    Answer const answer(alone.out);
    CHECK(answer.text("weights_hash") == hash);
    CHECK(answer.text("plan", "mode") == "single");
    CHECK_FALSE(answer.is_null("plan", "fallback"));
    CHECK(alone.err.find("trains on one rank") != std::string::npos);
    CHECK(alone.err.find("leaves the training to rank 0") != std::string::npos);
    for (auto const& flags :
         std::vector<Words>{{"--mode", "auto", "--no-fallback"}, {"--mode", "auto", "--dp", "1"}, {}})
        CHECK(launch("refused", "5", flags).status != 0);
    // The host takes the place of a device that cannot be had, where it was not asked for by itself.
    auto const host = training.run("host", {"--steps", "3", "--mode", "auto", "--devices", "cuda:7"});
    REQUIRE_MESSAGE(host.status == 0, host.err);
    CHECK_FALSE(Answer(host.out).is_null("plan", "fallback"));
    CHECK(training.run("device", {"--steps", "3", "--devices", "cuda:7"}).status == 4);
    CHECK(training.run("device", {"--steps", "3", "--mode", "auto", "--devices", "cuda:7", "--no-fallback"}).status ==
          4);
}

TEST_CASE("train: ranks of launch, torchrun, machines of their own and MPI train together and print once") {
    Training const training;
    Words const flags{"--steps", "3", "--save-every", "2"};
    auto const hash = training.train("one", flags).text("weights_hash");
    Words launched{"launch", "--nproc", "2", "--prefix", "none", "--", SHARDWISE_PROGRAM};
    auto const words = training.words("launched", flags);
    launched.insert(launched.end(), words.begin(), words.end());
    auto const ran = run(launched);
    CHECK_MESSAGE(ran.status == 0, ran.err);
    Answer const answer(ran.out);
    CHECK(answer.text("weights_hash") == hash);
    CHECK(answer.integer("plan", "dp") == 2);
    // Each rank by itself, in shared memory and over Gloo.
    auto const meeting = training.out("meeting");
    auto const port = std::to_string(20000 + getpid() % 30000);
    for (int const local_ranks : {2, 1}) {
        auto const name = "torchrun" + std::to_string(local_ranks);
        auto const rank = [&](int number) {
            auto all = torchrun(number, 2, port, local_ranks);
            all.emplace_back("SHARDWISE_RENDEZVOUS", meeting);
            return run(training.words(name, {"--steps", "3", "--save-every", "2", "--tp", "2"}), all);
        };
        Ran other;
        std::thread second([&] { other = rank(1); });
        auto const first = rank(0);
        second.join();
        if (first.says("is not built into")) continue;
        CHECK_MESSAGE(first.status == 0, first.err);
        CHECK(Answer(first.out).text("weights_hash") == hash);
        CHECK(Answer(first.out).integer("plan", "tp") == 2);
        CHECK_MESSAGE((other.status == 0 && other.out.empty()), other.err);
        CHECK(other.err.empty());
    }
    auto const has_mpi = run_command_line(mpirun(1, training.words("mpi1", {"--steps", "3", "--ranks", "mpi"})));
    if (has_mpi.says("is not built into") || has_mpi.status == 127) SHARDWISE_SKIP("no MPI on this machine");
    CHECK_MESSAGE(has_mpi.status == 0, has_mpi.err);
    CHECK_MESSAGE(Answer(has_mpi.out).text("weights_hash") == hash, has_mpi.err);
    auto const mpi = run_command_line(mpirun(2, training.words("mpi2", flags)));
    CHECK_MESSAGE(mpi.status == 0, mpi.err);
    CHECK_MESSAGE(Answer(mpi.out).text("weights_hash") == hash, mpi.err);
    CHECK(Answer(mpi.out).text("options", "ranks") == "mpi");
    auto const wrong = run_command_line(mpirun(2, training.words("none", {"--dp", "3"})));
    CHECK(wrong.status == 2);
    CHECK_MESSAGE(wrong.says("--dp: asks for another number of ranks"), wrong.err);
    auto const again = run_command_line(mpirun(2, training.words("none", {"--max-restarts", "1"})));
    CHECK(again.status == 1);
    CHECK_MESSAGE(again.says("--max-restarts: is of ranks that this program starts"), again.err);
}

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
        CHECK(answer.real("restarts", 0U, "seconds") > 0.9);
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

TEST_CASE("train: ranks that never join, or join twice, are named before the first step") {
    Training const training;
    auto const port = std::to_string(20000 + getpid() % 30000);
    auto const rank = [&](int number, int ranks) {
        auto all = torchrun(number, ranks, port, 2);
        all.emplace_back("SHARDWISE_RENDEZVOUS", training.out("meeting"));
        return run(training.words("run", {"--steps", "3", "--timeout", "2"}), all);
    };
    auto const alone = rank(0, 2);
    CHECK(alone.status == 1);
    CHECK_MESSAGE(alone.says("rank 1"), alone.err);
    CHECK_MESSAGE(alone.says("--timeout"), alone.err);
    Ran other;
    std::thread second([&] { other = rank(0, 2); });
    auto const first = rank(0, 2);
    second.join();
    CHECK((first.status == 1 && other.status == 1));
    auto const said = first.err + other.err;
    CHECK_MESSAGE(said.find("was taken before") != std::string::npos, said);
    CHECK(list_checkpoints(training.out("run")).empty());
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

TEST_CASE(
    "train: gradients of several buckets are exchanged beside backward passes over every transport; else it says why "
    "not") {
    Training const training;
    Words const flags{"--steps", "2"};
    auto const words_of = [&](std::string const& name, Words more) {
        more.insert(more.end(), flags.begin(), flags.end());
        auto words = training.words(name, more);
        // Of 3.6 MiB: small models have one bucket.
        words[1] = SHARDWISE_SOURCE_DIR "/share/shardwise/demo";
        return words;
    };
    auto const alone = run(words_of("one", {}));
    REQUIRE_MESSAGE(alone.status == 0, alone.err);
    auto const hash = Answer(alone.out).text("weights_hash");
    CHECK(Answer(alone.out).is_null("plan", "exchange"));
    auto const check = [&](Ran const& ran) {
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        Answer const answer(ran.out);
        CHECK(answer.text("weights_hash") == hash);
        CHECK(answer.text("plan", "exchange") == "beside backward passes");
    };
    check(run(words_of("threads", {"--dp", "2", "--zero", "2"})));
    check(run(words_of("processes", {"--dp", "2", "--zero", "2", "--ranks", "processes"})));
    check(run(words_of("stages", {"--dp", "2", "--pp", "2", "--ranks", "processes"})));
    auto const small = training.run("small", {"--steps", "2", "--dp", "2", "--dry-run"});
    CHECK(Answer(small.out).text("plan", "exchange").find("after backward passes: none of these buckets") == 0);
    // Over Gloo.
    auto const meeting = training.out("meeting");
    auto const port = std::to_string(20000 + getpid() % 30000);
    auto const rank = [&](int number, Words const& words) {
        auto all = torchrun(number, 2, port, 1);
        all.emplace_back("SHARDWISE_RENDEZVOUS", meeting);
        return run(words, all);
    };
    auto const says_after = [&](Ran const& planned) {
        REQUIRE_MESSAGE(planned.status == 0, planned.err);
        CHECK(Answer(planned.out).text("plan", "exchange").find("after backward passes: over MPI and Gloo") == 0);
    };
    says_after(rank(0, words_of("planned", {"--dp", "2", "--zero", "3", "--dry-run"})));
    Ran other;
    std::thread second([&] { other = rank(1, words_of("gloo", {"--dp", "2"})); });
    auto const first = rank(0, words_of("gloo", {"--dp", "2"}));
    second.join();
    if (!first.says("is not built into")) check(first);
    auto const mpi = run_command_line(mpirun(2, words_of("mpi", {"--dp", "2", "--zero", "3", "--dry-run"})));
    if (mpi.says("is not built into") || mpi.status == 127) SHARDWISE_SKIP("no MPI on this machine");
    says_after(mpi);
}
