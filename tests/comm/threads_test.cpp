// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/detail/pause.hpp>
#include <shardwise/comm/reduce_scatter.hpp>
#include <shardwise/comm/send_receive.hpp>
#include <shardwise/comm/threads.hpp>

#include <doctest/doctest.h>

#include "no_more_threads.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <time.h>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

TensorView<float, 1, Host> view(std::vector<float>& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}};
}

/// What each rank got, when every rank runs its own body; no rank ends the group by returning.
struct Outcome {
    std::vector<Result<>> results;
    /// From the start to each rank's answer, and to the last one's.
    std::vector<std::chrono::nanoseconds> answered;
    std::chrono::nanoseconds took{};
};

Outcome run_ranks(std::vector<std::function<Result<>(Threads&)>> const& bodies, ThreadsOptions const& options = {}) {
    Outcome outcome;
    outcome.results.resize(bodies.size());
    outcome.answered.resize(bodies.size());
    auto const group = ThreadsGroup::create(static_cast<std::int32_t>(bodies.size()), options).value();
    auto const begin = Clock::now();
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < bodies.size(); ++rank) {
        threads.emplace_back([&, rank] {
            auto comm = group.join(static_cast<std::int32_t>(rank));
            outcome.results[rank] = comm ? bodies[rank](*comm) : Result<>{comm.error()};
            outcome.answered[rank] = Clock::now() - begin;
        });
    }
    for (auto& thread : threads) thread.join();
    outcome.took = Clock::now() - begin;
    return outcome;
}

/// A body that reduces `count` floats.
auto reduce(std::int64_t count) {
    return [count](Threads& comm) {
        std::vector<float> data(static_cast<std::size_t>(count), 1.0F);
        return all_reduce(comm, view(data));
    };
}

void check_all(Outcome const& outcome, ErrorCode code, std::vector<std::string> const& words) {
    for (auto const& result : outcome.results) {
        REQUIRE_FALSE(result);
        CHECK(result.error().code() == code);
        auto const text = result.error().message();
        CAPTURE(text);
        for (auto const& word : words) {
            CAPTURE(word);
            CHECK(text.find(word) != std::string::npos);
        }
    }
}

}  // namespace

TEST_CASE("Threads: counts that differ are refused on every rank with both calls, before data moves") {
    auto const outcome = run_ranks({reduce(8), reduce(9)});
    check_all(outcome, ErrorCode::collective_mismatch,
              {"all_reduce sum fp32 x 8", "all_reduce sum fp32 x 9", "rank 0", "rank 1"});
    CHECK(outcome.took < 1s);
}

TEST_CASE("Threads: types, operations and roots that differ are refused") {
    auto const of_double = [](Threads& comm) {
        std::vector<double> data(8);
        return all_reduce(comm, TensorView<double, 1, Host>{data.data(), {8}});
    };
    check_all(run_ranks({reduce(8), of_double, reduce(8)}), ErrorCode::collective_mismatch, {"fp32 x 8", "fp64 x 8"});
    auto const largest = [](Threads& comm) {
        std::vector<float> data(8);
        return all_reduce(comm, view(data), ReduceOp::max);
    };
    check_all(run_ranks({reduce(8), largest}), ErrorCode::collective_mismatch, {"sum", "max"});
    auto const from = [](std::int32_t root) {
        return [root](Threads& comm) {
            std::vector<float> data(8);
            return broadcast(comm, view(data), root);
        };
    };
    check_all(run_ranks({from(0), from(1)}), ErrorCode::collective_mismatch, {"root 0", "root 1"});
}

TEST_CASE("Threads: lists of counts that differ are refused, also where their sums and all the rest agree") {
    // The longer parts differ, so that the ranks would take another number of steps, too.
    std::vector<std::int64_t> const lists[] = {{3, 5}, {5, 3}, {40, 60}, {60, 40}};
    auto const with_counts = [&](std::size_t list, auto const& collective) {
        return [&lists, list, collective](Threads& comm) {
            auto const& counts = lists[list];
            std::vector<float> own(static_cast<std::size_t>(counts[static_cast<std::size_t>(comm.rank())]));
            std::vector<float> all(static_cast<std::size_t>(counts[0] + counts[1]));
            return collective(comm, view(own), view(all), counts);
        };
    };
    auto const gather = [&](std::size_t list) {
        return with_counts(list, [](Threads& comm, auto own, auto all, auto const& counts) {
            return all_gather<float>(comm, own, all, counts);
        });
    };
    auto const scatter = [&](std::size_t list) {
        return with_counts(list, [](Threads& comm, auto own, auto all, auto const& counts) {
            return reduce_scatter<float>(comm, all, own, counts);
        });
    };
    for (std::size_t const list : {std::size_t{0}, std::size_t{2}}) {
        check_all(run_ranks({gather(list), gather(list + 1)}, {.chunk_bytes = 64}), ErrorCode::collective_mismatch,
                  {"all_gather", list == 0 ? "8, with 3 for rank 0; rank 1" : "100, with 40 for rank 0; rank 1"});
        check_all(run_ranks({scatter(list), scatter(list + 1)}, {.chunk_bytes = 64}), ErrorCode::collective_mismatch,
                  {"reduce_scatter", list == 0 ? "8, with 5 for rank 0" : "100, with 60 for rank 0"});
        CHECK(fingerprint_of(lists[list]) != fingerprint_of(lists[list + 1]));
    }
}

TEST_CASE("Threads: collectives in another order are refused with their number in the sequence") {
    auto const one = [](Threads& comm) {
        if (auto const done = barrier(comm); !done) return done;
        std::vector<float> data(4);
        if (auto const done = all_reduce(comm, view(data)); !done) return done;
        return broadcast(comm, view(data), 0);
    };
    auto const other = [](Threads& comm) {
        if (auto const done = barrier(comm); !done) return done;
        std::vector<float> data(4);
        if (auto const done = broadcast(comm, view(data), 0); !done) return done;
        return all_reduce(comm, view(data));
    };
    check_all(run_ranks({one, other}), ErrorCode::collective_mismatch, {"call 2, all_reduce", "call 2, broadcast"});
}

TEST_CASE("Threads: a rank that skips a collective is named at the deadline") {
    auto const skips = [](Threads& comm) {
        (void)comm;
        std::this_thread::sleep_for(600ms);
        return barrier(comm);
    };
    auto const outcome = run_ranks({reduce(4), skips, reduce(4), skips}, {.timeout = 200ms});
    check_all(outcome, ErrorCode::deadline_exceeded, {"all_reduce sum fp32 x 4", "by rank 1, 3"});
}

TEST_CASE("Threads: a rank that leaves early is named at once to those who wait for it") {
    auto const leaves = [](Threads&) { return Result<>{}; };
    auto const outcome = run_ranks({reduce(4), leaves, reduce(4)}, {.timeout = 60s});
    CHECK(outcome.results[1]);
    CHECK(outcome.took < 1s);
    for (std::size_t const rank : {std::size_t{0}, std::size_t{2}}) {
        REQUIRE_FALSE(outcome.results[rank]);
        CHECK(outcome.results[rank].error().code() == ErrorCode::rank_lost);
        CHECK(outcome.results[rank].error().message().find("rank 1: left the group before call 1, all_reduce") !=
              std::string::npos);
    }
}

TEST_CASE("Threads: a rank that never joins is named at the deadline") {
    auto const group = ThreadsGroup::create(3, {.timeout = 100ms}).value();
    Result<> result;
    std::thread other([&] {
        auto comm = group.join(2).value();
        (void)barrier(comm);
    });
    {
        auto comm = group.join(0).value();
        result = barrier(comm);
        other.join();
    }
    REQUIRE_FALSE(result);
    CHECK(result.error().code() == ErrorCode::deadline_exceeded);
    CHECK(result.error().message().find("by rank 1") != std::string::npos);
}

TEST_CASE("Threads: after the first failure every call of every rank returns that failure at once") {
    auto const insists = [](Threads& comm) {
        std::vector<float> data(comm.rank() == 0 ? 5 : 6);
        auto const first = all_reduce(comm, view(data));
        for (int turn = 0; turn < 3; ++turn) {
            auto const again = barrier(comm);
            if (again || again.error().message() != first.error().message()) return Result<>{};
        }
        auto const sent = send(comm, TensorView<float const, 1, Host>{data.data(), {1}}, 1 - comm.rank());
        return sent ? Result<>{} : first;
    };
    auto const outcome = run_ranks({insists, insists}, {.timeout = 60s});
    check_all(outcome, ErrorCode::collective_mismatch, {"x 5", "x 6"});
    CHECK(outcome.took < 1s);
}

TEST_CASE("run_threads: the error or exception of one rank unblocks the others and is the one that is kept") {
    auto const begin = Clock::now();
    for (bool const throws : {false, true}) {
        auto const result = run_threads(4,
                                        [&](Threads& comm) -> Result<> {
                                            if (comm.rank() == 2) {
                                                if (throws) throw std::runtime_error("no more paper");
                                                return Error{ErrorCode::malformed_file}.in("page 3").because("is torn");
                                            }
                                            std::vector<float> data(10);
                                            return all_reduce(comm, view(data));
                                        },
                                        {.timeout = 60s});
        REQUIRE_FALSE(result);
        CHECK(result.error().message() == (throws ? "rank 2: threw: no more paper" : "page 3: is torn"));
    }
    CHECK(Clock::now() - begin < 1s);
}

#if defined(__GLIBC__)
TEST_CASE("run_threads: ranks for which the system gives no thread are an error to all, not the end of the process") {
    auto const refused = [] {
        shardwise::testing::NoMoreThreads const refusal;
        return run_threads(3, reduce(8), {.timeout = 20s});
    }();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::capacity_exceeded);
    CHECK(refused.error().message().find("rank 1: gets no thread") != std::string::npos);
    CHECK(run_threads(3, reduce(8)));
}
#endif

TEST_CASE("Threads: a rank that waits for one that sleeps leaves its core to others") {
    double used = 0.0;
    auto const waits = [&](Threads& comm) {
        auto const seconds = [] {
            timespec now{};
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
            return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
        };
        auto const begin = seconds();
        auto const done = barrier(comm);
        used = seconds() - begin;
        return done;
    };
    auto const sleeps = [](Threads& comm) {
        std::this_thread::sleep_for(400ms);
        return barrier(comm);
    };
    CHECK(run_ranks({waits, sleeps}).results[0]);
    CHECK(used < 0.1);
}

TEST_CASE("Threads: what a receiver expects and a sender sends must agree") {
    std::vector<float> data(8);
    auto const sends = [&](Threads& comm) { return send(comm, TensorView<float const, 1, Host>{data.data(), {8}}, 1); };
    auto const receives = [](Threads& comm) {
        std::vector<float> place(7);
        return receive(comm, view(place), 0);
    };
    auto const outcome = run_ranks({sends, receives});
    REQUIRE_FALSE(outcome.results[1]);
    CHECK(outcome.results[1].error().message().find("sends fp32 x 8 where rank 1 receives fp32 x 7") !=
          std::string::npos);
}

TEST_CASE("Threads: ranks and roots that do not exist, and ranks that are taken, are refused") {
    CHECK(ThreadsGroup::create(0).error().message() == "threads: ranks: are not between 1 and 1024 (got 0)");
    CHECK(ThreadsGroup::create(1025).error().message() == "threads: ranks: are not between 1 and 1024 (got 1025)");
    CHECK(ThreadsGroup::create(2, {.chunk_bytes = 8}).error().code() == ErrorCode::invalid_argument);
    auto const group = ThreadsGroup::create(1).value();
    CHECK(group.join(1).error().code() == ErrorCode::invalid_argument);
    CHECK(group.join(-1).error().code() == ErrorCode::invalid_argument);
    auto comm = group.join(0).value();
    CHECK(group.join(0).error().message().find("was taken before") != std::string::npos);
    std::vector<float> data(1);
    CHECK(broadcast(comm, view(data), 1).error().code() == ErrorCode::invalid_argument);
    CHECK(send(comm, TensorView<float const, 1, Host>{data.data(), {1}}, 0).error().code() ==
          ErrorCode::invalid_argument);
    CHECK(barrier(comm));
}

TEST_CASE("Threads: chunks whose sizes would overflow are refused, and a timeout without an end is none") {
    for (auto const chunk : {(std::size_t{1} << 30U) + 1, std::size_t{1} << 60U, SIZE_MAX}) {
        auto const group = ThreadsGroup::create(4, {.chunk_bytes = chunk});
        REQUIRE_FALSE(group);
        CHECK(group.error().code() == ErrorCode::invalid_argument);
    }
    CHECK(run_threads(2, reduce(8), {.timeout = std::chrono::nanoseconds::max()}));
}

TEST_CASE("Threads: without the comparison of calls, equal calls still work and missing ranks are still named") {
    auto const outcome = run_ranks({reduce(1000), reduce(1000)}, {.checks_calls = false});
    CHECK(outcome.results[0]);
    CHECK(outcome.results[1]);
    auto const leaves = [](Threads&) { return Result<>{}; };
    auto const lost = run_ranks({reduce(4), leaves}, {.timeout = 60s, .checks_calls = false});
    CHECK(lost.results[0].error().code() == ErrorCode::rank_lost);
}

TEST_CASE(
    "Waiter: leaves the core at once to a rank that needs it where ranks outnumber cores, and spins for one "
    "elsewhere") {
    detail::Waiter crowded(true, 1s);
    CHECK(crowded.rest([] { return true; }));
    int early = 0;
    for (int turn = 0; turn < 100; ++turn) early += crowded.rest([] { return false; }) ? 1 : 0;
    CHECK(early == 0);
    // With a core for each, only who stays away for long is asked about.
    detail::Waiter waiter(false, 1s);
    int turns = 1;
    while (!waiter.rest([] { return true; })) ++turns;
    CHECK(turns > 50);
    CHECK(turns < 500);
}

TEST_CASE("Threads: ranks that stand side by side in an array write to lines of their own") {
    CHECK(alignof(Threads) >= detail::line_pair_bytes);
    std::vector<Threads> ranks;
    auto const group = ThreadsGroup::create(3).value();
    for (std::int32_t rank = 0; rank < 3; ++rank) ranks.push_back(group.join(rank).value());
    for (auto const& rank : ranks) {
        CHECK(reinterpret_cast<std::uintptr_t>(&rank) % detail::line_pair_bytes == 0);
    }
}

// facts/reliability.md: the exact limits, on an otherwise idle machine.
TEST_SUITE("long") {
    TEST_CASE("Threads: rows 8 to 13 of the table of faults hold within their times") {
        auto const order = [](bool is_barrier_first) {
            return [=](Threads& comm) {
                std::vector<float> data(4);
                if (is_barrier_first) return barrier(comm);
                return all_reduce(comm, view(data));
            };
        };
        auto const idles = [](Threads&) {
            std::this_thread::sleep_for(1s);
            return Result<>{};
        };
        auto const fails = [](Threads& comm) {
            return comm.fail(Error{ErrorCode::malformed_file}.because("page 3 is torn"));
        };
        for (int turn = 0; turn < 10; ++turn) {
            for (auto const& outcome : {run_ranks({reduce(8), reduce(9)}, {.timeout = 60s}),
                                        run_ranks({order(true), order(false)}, {.timeout = 60s})}) {
                CHECK(outcome.results[0].error().code() == ErrorCode::collective_mismatch);
                CHECK(outcome.took < 100ms);
            }
            auto const failed = run_ranks({reduce(8), fails, reduce(8)}, {.timeout = 60s});
            CHECK(failed.results[0].error().message() == "page 3 is torn");
            CHECK(failed.took < 50ms);
        }
        auto const skipped = run_ranks({reduce(8), idles, reduce(8)}, {.timeout = 200ms});
        for (std::size_t const rank : {std::size_t{0}, std::size_t{2}}) {
            CHECK(skipped.results[rank].error().message().find("by rank 1") != std::string::npos);
            CHECK(skipped.answered[rank] < 200ms + 500ms);
        }
    }
}
