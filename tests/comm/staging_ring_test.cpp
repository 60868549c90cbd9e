// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/detail/staging_ring.hpp>
#include <shardwise/comm/detail/step_protocol.hpp>

#include <doctest/doctest.h>

#include "../comm/explorer.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;
using detail::StagingRing;
using detail::StepProtocol;
using shardwise::testing::Explorer;
using shardwise::testing::ModelAtomic;
using shardwise::testing::ModelCell;

namespace {

/// All executions of `steps` steps whose pieces, of one, two and two cells in turn, lie in a ring of `pieces` times two cells.
Explorer::Outcome explore_ring(std::size_t ranks, std::uint32_t steps, std::size_t pieces) {
    struct State {
        std::vector<ModelAtomic<std::uint32_t>> arrived;
        std::vector<ModelCell> cells;
    };
    auto const ring = 2 * pieces;
    State state;
    Explorer explorer;
    auto const prepare = [&] {
        state = {};
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            state.arrived.emplace_back(0U);
            for (std::size_t i = 0; i < ring; ++i) state.cells.emplace_back();
        }
    };
    auto const body = [&](std::size_t rank) {
        StagingRing places;
        for (std::uint32_t step = 1; step <= steps; ++step) {
            std::size_t const length = step % 3 == 1 ? 1 : 2;
            auto const begin = places.claim(length, ring);
            auto const value = [&](std::size_t of, std::size_t i) { return std::uint64_t{1000} * of + 10 * step + i; };
            for (std::size_t i = 0; i < length; ++i) state.cells[rank * ring + begin + i].write(value(rank, i));
            StepProtocol::publish(state.arrived[rank], step);
            for (std::size_t peer = 0; peer < ranks; ++peer) {
                if (peer == rank) continue;
                explorer.wait_until([&] { return StepProtocol::has_published(state.arrived[peer], step); });
            }
            for (std::size_t peer = 0; peer < ranks; ++peer) {
                for (std::size_t i = 0; i < length; ++i) {
                    if (state.cells[peer * ring + begin + i].read() != value(peer, i))
                        explorer.report("rank " + std::to_string(rank) + " reads another step's piece");
                }
            }
        }
    };
    return explorer.explore(ranks, prepare, body);
}

/// Mistakes in lending, planted one at a time.
enum class Mistake {
    none,
    lent_too_early,     // no step of its own while a claimed place may still be read
    early_publish,      // the second step before the answers are written
    no_second_wait,     // answers that are not waited for
    other_part,         // an answer in the part of the next rank
    reads_theirs,       // an answer from another rank's ring, which that rank may lend again
    relaxed_publish,    // a step without the release that goes with it
    written_after_all,  // a rank that gives up waiting writes for its next loan, where a late one puts its answer
    gives_up,           // no mistake: the same without writing
};

/// All executions of a sequence of collectives: 'c' publishes two cells in a claimed place of a ring of six, 'l' lends a ring.
/// Each rank puts its answers into its part, a cell, of all rings.
Explorer::Outcome explore_loans(std::size_t ranks, std::string_view calls, Mistake mistake) {
    constexpr std::size_t ring = 6;
    struct State {
        std::vector<ModelAtomic<std::uint32_t>> arrived;  // of each rank, by the step's parity
        std::vector<ModelCell> cells;
    };
    State state;
    Explorer explorer;
    auto const prepare = [&] {
        state = {};
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            for (int half = 0; half < 2; ++half) state.arrived.emplace_back(0U);
            for (std::size_t i = 0; i < ring; ++i) state.cells.emplace_back();
        }
    };
    auto const body = [&](std::size_t rank) {
        StagingRing places;
        std::uint32_t step = 0;
        auto const cell = [&](std::size_t of, std::size_t i) -> ModelCell& { return state.cells[of * ring + i]; };
        auto const flag = [&](std::size_t of) -> ModelAtomic<std::uint32_t>& {
            return state.arrived[of * 2 + StepProtocol::half_to_read(step)];
        };
        auto const publish = [&] {
            ++step;
            auto const order =
                mistake == Mistake::relaxed_publish ? std::memory_order_relaxed : std::memory_order_release;
            if (order == std::memory_order_release) return StepProtocol::publish(flag(rank), step);
            flag(rank).store(step, order);
        };
        auto const wait = [&] {
            for (std::size_t peer = 0; peer < ranks; ++peer) {
                if (peer == rank) continue;
                explorer.wait_until([&] { return StepProtocol::has_published(flag(peer), step); });
            }
        };
        auto const expect = [&](std::uint64_t got, std::uint64_t wanted) {
            if (got != wanted) explorer.report("rank " + std::to_string(rank) + " reads another call's value");
        };
        for (std::size_t call = 0; call < calls.size(); ++call) {
            auto const value = [&](std::size_t of, std::size_t i) { return 10'000 * of + 100 * call + i + 1; };
            auto const answer = [&](std::size_t of) { return 1'000'000 + 100 * call + of; };
            if (calls[call] == 'c') {
                auto const begin = places.claim(2, ring);
                for (std::size_t i = 0; i < 2; ++i) cell(rank, begin + i).write(value(rank, i));
                publish();
                wait();
                for (std::size_t peer = 0; peer < ranks; ++peer) {
                    if (peer == rank) continue;
                    for (std::size_t i = 0; i < 2; ++i) expect(cell(peer, begin + i).read(), value(peer, i));
                }
                continue;
            }
            if (!places.is_clear()) {
                if (mistake != Mistake::lent_too_early) {
                    publish();
                    wait();
                }
                places.clear();
            }
            for (std::size_t part = 0; part < ranks; ++part) {
                if (part != rank) cell(rank, part).write(value(rank, part));
            }
            publish();
            wait();
            if (mistake == Mistake::early_publish) publish();
            auto const written = mistake == Mistake::other_part ? (rank + 1) % ranks : rank;
            for (std::size_t peer = 0; peer < ranks; ++peer) {
                if (peer == rank) continue;
                expect(cell(peer, rank).read(), value(peer, rank));
                cell(peer, written).write(answer(rank));
            }
            if (mistake != Mistake::early_publish) publish();
            bool const gives_up = mistake == Mistake::gives_up || mistake == Mistake::written_after_all;
            if (gives_up && rank == 0 && call + 1 == calls.size()) {
                if (mistake == Mistake::written_after_all) cell(rank, 1).write(0);
                return;
            }
            if (mistake != Mistake::no_second_wait) wait();
            for (std::size_t part = 0; part < ranks; ++part) {
                if (part == rank) continue;
                auto const owner = mistake != Mistake::reads_theirs ? rank : (part + 1) % ranks;
                if (owner != part) expect(cell(owner, part).read(), answer(part));
            }
        }
    };
    return explorer.explore(ranks, prepare, body);
}

}  // namespace

// The explorer switches stacks, which AddressSanitizer follows slowly.
TEST_SUITE_BEGIN("fibers");

TEST_CASE(
    "StagingRing: pieces of two claims in a row never overlap, whatever their lengths, and stay within the ring") {
    constexpr std::size_t longest = 7;
    for (std::size_t const ring : {3 * longest, 3 * longest + 2, 8 * longest}) {
        for (std::size_t a = 1; a <= longest; ++a) {
            for (std::size_t b = 1; b <= longest; ++b) {
                StagingRing places;
                std::size_t last_begin = 0;
                std::size_t last_end = 0;
                for (std::size_t claim = 0; claim < 40; ++claim) {
                    auto const length = claim % 3 == 0 ? a : claim % 3 == 1 ? b : longest;
                    auto const begin = places.claim(length, ring);
                    auto const end = begin + length;
                    REQUIRE(end <= ring);
                    bool const is_apart = end <= last_begin || begin >= last_end;
                    REQUIRE((is_apart || claim == 0));
                    last_begin = begin;
                    last_end = end;
                }
            }
        }
    }
}

TEST_CASE("StepProtocol over a StagingRing: no execution races, and a ring of two pieces is caught") {
    for (std::size_t const ranks : {std::size_t{2}, std::size_t{3}}) {
        auto const steps = ranks == 2 ? 6U : 3U;
        CHECK(explore_ring(ranks, steps, StagingRing::min_pieces).problem == "");
        CHECK(explore_ring(ranks, 6U, 1).problem != "");
    }
    // Lengths 1, 2, 2 in a ring of four cells: the third wraps onto the second while it may still be read.
    CHECK(explore_ring(2, 6, 2).problem != "");
}

TEST_CASE("StagingRing: no execution of loans among claims races, blocks or misses an answer") {
    for (auto const* const calls : {"lll", "lccl", "clcl", "ccll"}) {
        CAPTURE(calls);
        for (std::size_t const ranks : {std::size_t{2}, std::size_t{3}}) {
            auto const outcome = explore_loans(ranks, calls, Mistake::none);
            CHECK(outcome.problem == "");
            CHECK(outcome.executions > 3);
            CHECK(explore_loans(ranks, calls, Mistake::gives_up).problem == "");
        }
    }
}

TEST_CASE("StagingRing: each mistake in lending is caught") {
    for (auto const mistake :
         {Mistake::lent_too_early, Mistake::early_publish, Mistake::no_second_wait, Mistake::other_part,
          Mistake::reads_theirs, Mistake::relaxed_publish, Mistake::written_after_all}) {
        CAPTURE(static_cast<int>(mistake));
        CHECK(explore_loans(3, "cll", mistake).problem != "");
    }
}

TEST_SUITE_END();
