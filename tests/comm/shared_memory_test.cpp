// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/all_to_all.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/send_receive.hpp>
#include <shardwise/comm/shared_memory.hpp>

#include <doctest/doctest.h>

#include "../comm/shared_memory_ranks.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using namespace shardwise::testing::shared_memory;
using shardwise::testing::run_processes;

TEST_CASE("SharedMemory: collectives between processes give what they give between threads") {
    for (std::int32_t const ranks : {1, 2, 4}) {
        Body const body = [](SharedMemory& comm) -> Result<> {
            Error const wrong{ErrorCode::shape_mismatch};
            for (std::int64_t const length : {0, 1, 1000, 200'001}) {
                std::vector<float> data(static_cast<std::size_t>(length), static_cast<float>(comm.rank() + 1));
                if (auto const done = all_reduce(comm, view(data)); !done) return done;
                auto const sum = static_cast<float>(comm.size() * (comm.size() + 1) / 2);
                for (auto const value : data) {
                    if (value != sum) return wrong;
                }
                if (comm.rank() == 0) std::fill(data.begin(), data.end(), -3.0F);
                if (auto const done = broadcast(comm, view(data), 0); !done) return done;
                for (auto const value : data) {
                    if (value != -3.0F) return wrong;
                }
            }
            auto half = comm.split(comm.rank() % 2);
            if (!half) return half.error();
            std::vector<float> one{static_cast<float>(comm.rank())};
            if (auto const done = all_reduce(*half, view(one)); !done) return done;
            auto const expected = comm.size() < 4        ? static_cast<float>(comm.rank())
                                  : comm.rank() % 2 == 0 ? 2.0F
                                                         : 4.0F;
            if (one[0] != expected) return wrong;
            return barrier(comm);
        };
        auto const outcomes = run_ranks(std::vector<Body>(static_cast<std::size_t>(ranks), body));
        for (auto const& outcome : outcomes) {
            CAPTURE(outcome.message);
            CHECK(outcome.succeeded);
        }
    }
    CHECK(leaves_nothing_behind());
}

// facts/reliability.md, rows 1 to 3, times ten: the exact limits are in the suite "long".
TEST_CASE("SharedMemory: a rank that is killed, crashes or ends is named to all others with its fate") {
    struct Fate {
        std::function<void()> act;
        std::string words;
    };
    Fate const fates[] = {
        {[] { kill(getpid(), SIGKILL); }, "was ended by signal Killed"},
        {[] {
             // The sanitizers' own handlers would turn the signal into an exit.
             std::signal(SIGSEGV, SIG_DFL);
             kill(getpid(), SIGSEGV);
         },
         "was ended by signal Segmentation fault"},
        {[] { _exit(0); }, "ended with exit code 0"},
    };
    for (auto const& fate : fates) {
        auto const outcomes =
            run_ranks({reduce_until_failure, reduce_until_failure, reduce_then(fate.act), reduce_until_failure},
                      {.timeout = 60s});
        check_survivors(outcomes, 2, fate.words, 2500ms);
    }
    CHECK(leaves_nothing_behind());
}

TEST_CASE(
    "SharedMemory: lost tells of a rank that died or left, or of the group's first error, and of nothing before") {
    struct Fate {
        std::function<Result<>(SharedMemory&, Stage const&)> act;
        ErrorCode code;
        std::string words;
    };
    Fate const fates[] = {
        {[](SharedMemory&, Stage const&) -> Result<> { return kill(getpid(), SIGKILL), Result<>(); },
         ErrorCode::rank_lost, "rank 1: was ended by signal Killed"},
        {[](SharedMemory& comm, Stage const& stage) -> Result<> {
             { auto const left = std::move(comm); }
             (void)stage.await(2);
             return {};
         },
         ErrorCode::rank_lost, "rank 1: left the group"},
        // Nobody joins its call.
        {[](SharedMemory& comm, Stage const&) -> Result<> {
             std::vector<float> data(10);
             return all_reduce(comm, view(data));
         },
         ErrorCode::deadline_exceeded, "all_reduce"},
    };
    for (auto const& fate : fates) {
        CAPTURE(fate.words);
        Stage const stage;
        Body const watches = [&](SharedMemory& comm) -> Result<> {
            if (comm.lost()) return Error{ErrorCode::invalid_argument}.in("nobody").because("is lost yet");
            stage.step();
            auto const deadline = Deadline::after(20s);
            while (!deadline.has_passed()) {
                if (auto const error = comm.lost()) return stage.step(), *error;
                std::this_thread::sleep_for(1ms);
            }
            return {};
        };
        Body const goes = [&](SharedMemory& comm) -> Result<> {
            (void)stage.await(1);
            return fate.act(comm, stage);
        };
        auto const outcomes = run_ranks({watches, goes}, {.timeout = 3s});
        CAPTURE(outcomes[0].message);
        CHECK_FALSE(outcomes[0].succeeded);
        CHECK(outcomes[0].code == fate.code);
        CHECK(outcomes[0].message.find(fate.words) != std::string::npos);
    }
    CHECK(leaves_nothing_behind());
}

TEST_CASE("SharedMemory: a stopped rank is unresponsive at the deadline; a short stop is no alarm") {
    auto const stop_for = [](std::chrono::milliseconds time) {
        return [time](std::vector<pid_t> const& processes) {
            std::this_thread::sleep_for(100ms);
            kill(processes[1], SIGSTOP);
            std::this_thread::sleep_for(time);
            kill(processes[1], SIGCONT);
        };
    };
    auto const stopped =
        run_ranks({reduce_until_failure, reduce_until_failure, reduce_until_failure}, {.timeout = 300ms}, stop_for(3s));
    for (std::size_t const rank : {std::size_t{0}, std::size_t{2}}) {
        CAPTURE(stopped[rank].message);
        CHECK(stopped[rank].code == ErrorCode::deadline_exceeded);
        CHECK(stopped[rank].message.find("by rank 1 (stopped: unresponsive)") != std::string::npos);
        CHECK(stopped[rank].took < 2900ms);
    }
    Body const receives = [](SharedMemory& comm) -> Result<> {
        std::vector<float> data(10);
        while (true) {
            if (auto const done = receive(comm, view(data), 1); !done) return done;
        }
    };
    Body const sends = [](SharedMemory& comm) -> Result<> {
        std::vector<float> data(10);
        while (true) {
            if (auto const done = send<float>(comm, view(data), 0); !done) return done;
        }
    };
    auto const silent = run_ranks({receives, sends}, {.timeout = 300ms}, stop_for(3s));
    CAPTURE(silent[0].message);
    CHECK(silent[0].code == ErrorCode::deadline_exceeded);
    CHECK(silent[0].message.find("receive: rank 1: is stopped: unresponsive") != std::string::npos);

    Body const many = [](SharedMemory& comm) -> Result<> {
        std::vector<float> data(10, 1.0F);
        auto const end = std::chrono::steady_clock::now() + 600ms;
        // Rank 0 decides when to end, so that all ranks make as many calls.
        std::vector<float> goes_on{1.0F};
        while (goes_on[0] > 0.0F) {
            if (auto const done = all_reduce(comm, view(data)); !done) return done;
            goes_on[0] = std::chrono::steady_clock::now() < end ? 1.0F : 0.0F;
            if (auto const done = broadcast(comm, view(goes_on), 0); !done) return done;
        }
        return {};
    };
    for (auto const& outcome : run_ranks({many, many}, {.timeout = 20s}, stop_for(200ms))) {
        CAPTURE(outcome.message);
        CHECK(outcome.succeeded);
    }
}

TEST_CASE(
    "SharedMemory: who sees late that all have come ends the call as they did; all meet a later error in one call") {
    Stage const stage;
    auto const sums = [](SharedMemory& comm) {
        std::vector<float> data(3, 1.0F);
        return all_reduce(comm, view(data));
    };
    auto const goes_on = [&](SharedMemory& comm) -> Result<> {
        stage.step();
        if (auto const first = sums(comm); !first) return Error{ErrorCode::unsupported}.because("met it too early");
        auto const met = barrier(comm);
        stage.step();
        return met;
    };
    auto const dies = [&](SharedMemory& comm) -> Result<> {
        auto const came = stage.await(3) ? sums(comm) : Error{ErrorCode::unsupported};
        if (came) kill(getpid(), SIGKILL);
        return came;
    };
    auto const outcomes =
        run_ranks({goes_on, goes_on, dies}, {.timeout = 20s}, [&](std::vector<pid_t> const& processes) {
            REQUIRE(stage.await(2));
            // Both wait for the last one by now; one of them is kept from seeing it come, and die.
            std::this_thread::sleep_for(200ms);
            kill(processes[0], SIGSTOP);
            stage.step();
            CHECK(stage.await(4));
            kill(processes[0], SIGCONT);
        });
    for (std::size_t const rank : {std::size_t{0}, std::size_t{1}}) {
        CAPTURE(outcomes[rank].message);
        CHECK(outcomes[rank].code == ErrorCode::rank_lost);
        CHECK(outcomes[rank].message.find("rank 2: was ended by signal Killed before call 2, barrier") !=
              std::string::npos);
    }
}

TEST_CASE("SharedMemory: calls that differ are refused on every rank with both calls") {
    auto const reduce = [](std::size_t count) {
        return [count](SharedMemory& comm) {
            std::vector<float> data(count);
            return all_reduce(comm, view(data));
        };
    };
    for (auto const& outcome : run_ranks({reduce(5), reduce(6), reduce(5)})) {
        CAPTURE(outcome.message);
        CHECK(outcome.code == ErrorCode::collective_mismatch);
        CHECK(outcome.message.find("fp32 x 5") != std::string::npos);
        CHECK(outcome.message.find("fp32 x 6") != std::string::npos);
    }
}

TEST_CASE("SharedMemory: ranks that never come, come twice, or mean another group are named") {
    auto const key = fresh_key();
    auto const join = [key](std::int32_t rank, std::int32_t ranks,
                            SharedMemoryOptions const& options = {.timeout = 500ms}) {
        return [=]() -> Result<> {
            auto const comm = SharedMemory::join(key, rank, ranks, options);
            return comm ? Result<>{} : comm.error();
        };
    };
    auto const absent = run_processes({join(0, 3), join(2, 3)});
    for (auto const& outcome : absent) {
        CHECK(outcome.code == ErrorCode::deadline_exceeded);
        CHECK(outcome.message.find("was never joined by rank 1") != std::string::npos);
    }
    // Who gives up first and ends is not the one that is missing.
    auto const patient = run_processes({join(0, 3), join(2, 3, {.timeout = 1500ms})});
    CAPTURE(patient[1].message);
    CHECK(patient[1].code == ErrorCode::deadline_exceeded);
    CHECK(patient[1].message.find("was never joined by rank 1;") != std::string::npos);
    auto const twice = run_processes({join(0, 2), join(0, 2)});
    CHECK(int{twice[0].code == ErrorCode::invalid_argument} + int{twice[1].code == ErrorCode::invalid_argument} == 1);
    auto const sizes = run_processes({join(0, 2), join(1, 3)});
    CHECK(int{sizes[0].message.find("belongs to a group of another size") != std::string::npos} +
              int{sizes[1].message.find("belongs to a group of another size") != std::string::npos} ==
          1);
    CHECK(leaves_nothing_behind());

    CHECK(SharedMemory::join("a/b", 0, 1).error().code() == ErrorCode::invalid_argument);
    CHECK(SharedMemory::join("", 0, 1).error().code() == ErrorCode::invalid_argument);
    CHECK(SharedMemory::join("a", 1, 1).error().code() == ErrorCode::invalid_argument);
    CHECK(SharedMemory::join("a", 0, 0).error().message() == "shared_memory: ranks: are not between 1 and 256 (got 0)");
}

TEST_SUITE("long") {
    // facts/reliability.md, rows 1 to 3: 250 ms on an otherwise idle machine.
    TEST_CASE("SharedMemory: the death of a rank is known within 250 ms") {
        for (int turn = 0; turn < 20; ++turn) {
            std::chrono::steady_clock::time_point died;
            auto const begin = std::chrono::steady_clock::now();
            auto const kill_one = [&](std::vector<pid_t> const& processes) {
                std::this_thread::sleep_for(50ms);
                kill(processes[1], SIGKILL);
                died = std::chrono::steady_clock::now();
            };
            auto const outcomes =
                run_ranks({reduce_until_failure, reduce_until_failure, reduce_until_failure, reduce_until_failure},
                          {.timeout = 60s}, kill_one);
            check_survivors(outcomes, 1, "", died - begin + 250ms);
        }
    }

    // Rows 4, 8, 13 and 14.
    TEST_CASE("SharedMemory: stopped, diverging, missing and repeated ranks are known within their times") {
        auto const stop_one = [](std::vector<pid_t> const& processes) {
            std::this_thread::sleep_for(100ms);
            kill(processes[1], SIGSTOP);
            std::this_thread::sleep_for(2s);
            kill(processes[1], SIGCONT);
        };
        auto const stopped = run_ranks({reduce_until_failure, reduce_until_failure}, {.timeout = 300ms}, stop_one);
        CHECK(stopped[0].message.find("rank 1 (stopped: unresponsive)") != std::string::npos);
        CHECK(stopped[0].took < 100ms + 300ms + 500ms);

        auto const reduce = [](std::size_t count) {
            return [count](SharedMemory& comm) {
                std::vector<float> data(count);
                return all_reduce(comm, view(data));
            };
        };
        for (auto const& outcome : run_ranks({reduce(5), reduce(6)})) {
            CHECK(outcome.code == ErrorCode::collective_mismatch);
            CHECK(outcome.took < 100ms);
        }
        auto const join = [key = fresh_key()](std::int32_t rank, std::int32_t ranks) {
            return [=]() -> Result<> {
                auto const comm = SharedMemory::join(key, rank, ranks, {.timeout = 300ms});
                return comm ? Result<>{} : comm.error();
            };
        };
        for (auto const& outcome : run_processes({join(0, 3), join(2, 3)})) CHECK(outcome.took < 300ms + 500ms);
        for (auto const& outcome : run_processes({join(0, 2), join(0, 2)})) CHECK(outcome.took < 1s);
    }
}
