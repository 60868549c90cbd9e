// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>

#include <doctest/doctest.h>

#include "launched_ranks.hpp"
#include "skip.hpp"
#include "training_processes.hpp"

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
    CHECK_MESSAGE(launch("refused", "5", {}).says("5 ranks: have no way to share the training"), alone.err);
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

TEST_CASE("train: a rank whose data come slowly is named once, whichever it is, and the bits stay") {
    Training const training;
    auto const library = std::filesystem::path(SHARDWISE_PROGRAM).parent_path() / "../tests/fakes/libslow_reads.so";
    REQUIRE(exists(library.string()));
    struct Case {
        std::string slow_rank, steps;
        Words starter, flags;
    };
    std::int64_t number = 0;
    for (auto const& one :
         {Case{"1", "20", {}, {"--ranks", "processes", "--dp", "2"}},
          Case{"1", "10", {}, {"--ranks", "processes", "--pp", "2"}},
          Case{"0", "10", {"launch", "--nproc", "2", "--prefix", "none", "--", SHARDWISE_PROGRAM}, {}}}) {
        CAPTURE(one.slow_rank);
        CAPTURE(number);
        auto command = training.words("slow" + std::to_string(++number), {"--steps", one.steps});
        command[7] = "2";
        auto alone = command;
        alone[5] += "whole";
        command.insert(command.end(), one.flags.begin(), one.flags.end());
        auto words = one.starter;
        words.insert(words.end(), command.begin(), command.end());
        // A read of each sequence, two in a step, takes this long; all else of it some milliseconds.
        auto const ran = run(words, {{"LD_PRELOAD", library.string()},
                                     {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                                     {"SLOW_RANK", one.slow_rank},
                                     {"SLOW_MS", "100"}});
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        Answer const answer(ran.out);
        auto const warning = "rank " + one.slow_rank +
                             " took more than twice the median of ranks with the same work, of each sequence, in ten "
                             "steps in a row, until step 10";
        REQUIRE_MESSAGE(answer.size("warnings") == 1, ran.err);
        CHECK(answer.text("warnings", 0U) == warning);
        CHECK_MESSAGE(ran.says("shardwise: warning: " + warning + "\n"), ran.err);
        CHECK(ran.err.find("twice the median") == ran.err.rfind("twice the median"));
        Answer const whole(run(alone).out);
        CHECK(whole.size("warnings") == 0);
        check_same(answer, whole);
    }
}
