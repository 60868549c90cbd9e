// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/all_to_all.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/detail/counts_mismatch.hpp>
#include <shardwise/comm/reduce_scatter.hpp>
#include <shardwise/comm/threads.hpp>

#include <doctest/doctest.h>

#include "../comm/shared_memory_ranks.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::run_processes;
using shardwise::testing::shared_memory::Body;
using shardwise::testing::shared_memory::fresh_key;
using shardwise::testing::shared_memory::run_ranks;
using shardwise::testing::shared_memory::view;

namespace {

/// Two for each rank; the caller's own list says `count` for one of them.
std::vector<std::int64_t> list_of(std::int32_t ranks, std::int32_t part, std::int64_t count) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), 2);
    counts[static_cast<std::size_t>(part)] = count;
    return counts;
}

template <class C>
Result<> gather(C& comm, std::vector<std::int64_t> const& counts) {
    std::vector<float> own(static_cast<std::size_t>(counts[static_cast<std::size_t>(comm.rank())]));
    std::vector<float> all(static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})));
    return all_gather<float>(comm, view(own), view(all), counts);
}
template <class C>
Result<> scatter(C& comm, std::vector<std::int64_t> const& counts) {
    std::vector<float> own(static_cast<std::size_t>(counts[static_cast<std::size_t>(comm.rank())]));
    std::vector<float> all(static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})));
    return reduce_scatter<float>(comm, view(all), view(own), counts);
}

/// What each thread is told when every one runs its own body; none ends the group by returning.
template <class BodyOf>
std::vector<std::string> run_on_threads(std::int32_t ranks, BodyOf const& body, ThreadsOptions const& options) {
    auto const group = ThreadsGroup::create(ranks, options).value();
    std::vector<std::string> words(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
            auto comm = group.join(rank);
            auto const result = comm ? body(*comm) : Result<>(comm.error());
            words[static_cast<std::size_t>(rank)] = result ? "" : result.error().message();
        });
    }
    for (auto& thread : threads) thread.join();
    return words;
}

}  // namespace

TEST_CASE(
    "Counts that differ between ranks are named: the first part, and the first rank that gives it another count") {
    // Lists that are longer than a chunk of 64 bytes travel in several pieces.
    struct Try {
        std::int32_t ranks;
        std::int32_t other;
        std::int32_t part;
    };
    for (auto const& each : {Try{2, 1, 0}, Try{3, 2, 1}, Try{3, 0, 2}, Try{12, 5, 11}, Try{12, 11, 9}}) {
        for (bool const is_gather : {true, false}) {
            auto const body = [&](Threads& comm) -> Result<> {
                if (auto const met = barrier(comm); !met) return met;
                auto const counts = list_of(each.ranks, each.part, comm.rank() == each.other ? 7 : 2);
                return is_gather ? gather(comm, counts) : scatter(comm, counts);
            };
            auto const named = each.other == 0 ? 1 : each.other;
            auto const text = [&](std::int32_t rank, std::int64_t count) {
                auto const total = 2 * each.ranks + (count == 7 ? 5 : 0);
                return std::string(rank == 0 ? "rank 0 is at" : "rank " + std::to_string(rank) + " at") + " call 2, " +
                       (is_gather ? "all_gather fp32 x " : "reduce_scatter sum fp32 x ") + std::to_string(total) +
                       ", with " + std::to_string(count) + " for rank " + std::to_string(each.part);
            };
            auto const expected = "ranks 0 and " + std::to_string(named) +
                                  ": differ: " + text(0, each.other == 0 ? 7 : 2) + "; " +
                                  text(named, each.other == 0 ? 2 : 7) + "; let all ranks give the same counts";
            for (auto const& words : run_on_threads(each.ranks, body, {.timeout = 50s, .chunk_bytes = 64}))
                CHECK(words == expected);
        }
    }
}

TEST_CASE("Counts that differ between processes are named, and a rank that dies while they are compared is") {
    Body const two = [](SharedMemory& comm) { return gather(comm, list_of(3, 1, 2)); };
    Body const seven = [](SharedMemory& comm) { return gather(comm, list_of(3, 1, 7)); };
    for (auto const& outcome : run_ranks({two, seven, two})) {
        CHECK(outcome.message.find(
                  "fp32 x 6, with 2 for rank 1; rank 1 at call 1, all_gather fp32 x 11, with 7 for rank 1") !=
              std::string::npos);
    }
    // It takes one step of the call without a comparison, and dies before it shows its counts.
    auto const join = [key = fresh_key()](std::int32_t rank) {
        return [=]() -> Result<> {
            auto comm = SharedMemory::join(key, rank, 3, {.timeout = 50s, .checks_calls = rank != 2});
            if (!comm) return comm.error();
            auto const counts = list_of(3, 1, rank == 1 ? 7 : 2);
            if (rank < 2) return gather(*comm, counts);
            comm->begin({CollectiveKind::all_gather, Dtype::f32, ReduceOp::sum, -1, 6, fingerprint_of(counts)});
            (void)comm->mine(8);
            (void)comm->step();
            kill(getpid(), SIGKILL);
            return {};
        };
    };
    auto const outcomes = run_processes({join(0), join(1), join(2)});
    for (std::size_t const rank : {std::size_t{0}, std::size_t{1}}) {
        CAPTURE(outcomes[rank].message);
        CHECK(outcomes[rank].code == ErrorCode::rank_lost);
        CHECK(outcomes[rank].message.find("rank 2: was ended by signal Killed before call 1, all_gather") !=
              std::string::npos);
        CHECK(outcomes[rank].took < 20s);
    }
}

TEST_CASE("Counts are compared only where calls differ in nothing else") {
    auto const body = [](Threads& comm) -> Result<> {
        if (comm.rank() == 2) return scatter(comm, list_of(3, 0, 1));
        return gather(comm, list_of(3, 0, comm.rank()));
    };
    for (auto const& words : run_on_threads(3, body, {.timeout = 50s})) {
        CHECK(words.find("differ: rank") != std::string::npos);
        CHECK(words.find("let all ranks call the same in the same order") != std::string::npos);
    }
}

TEST_CASE("all_to_all: a part of another length than its receiver expects is named with both ranks and both counts") {
    auto const body = [](Threads& comm) -> Result<> {
        // Rank 1 sends 5 to rank 2, which expects 2 of everybody.
        std::vector<std::int64_t> const sent = comm.rank() == 1 ? list_of(3, 2, 5) : list_of(3, 0, 2);
        std::vector<std::int64_t> const received(3, 2);
        std::vector<float> in(comm.rank() == 1 ? 9 : 6);
        std::vector<float> out(6);
        return all_to_all<float>(comm, view(in), sent, view(out), received);
    };
    for (auto const& words : run_on_threads(3, body, {.timeout = 50s})) {
        CHECK(words ==
              "rank 1: sends fp32 x 5 to rank 2 in all_to_all, which expects fp32 x 2; exchange the counts before the "
              "data");
    }
}

TEST_CASE("Counts that are negative are refused before anything moves, also where their sum is that of the view") {
    auto const group = ThreadsGroup::create(2).value();
    auto comm = group.join(0).value();
    std::vector<float> four(4);
    std::vector<float> two(2);
    std::vector<std::int64_t> const counts{4, -2};
    auto const check = [](Result<> const& done) {
        REQUIRE_FALSE(done);
        CHECK(done.error().code() == ErrorCode::shape_mismatch);
    };
    check(all_gather<float>(comm, view(four), view(two), counts));
    check(reduce_scatter<float>(comm, view(two), view(four), counts));
    check(all_to_all<float>(comm, view(two), counts, view(four), std::vector<std::int64_t>{2, 2}));
    check(all_to_all<float>(comm, view(four), std::vector<std::int64_t>{2, 2}, view(two), counts));
}
