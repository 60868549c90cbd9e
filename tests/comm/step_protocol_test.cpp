// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/detail/group_region.hpp>
#include <shardwise/comm/detail/step_protocol.hpp>

#include <doctest/doctest.h>

#include "../comm/explorer.hpp"

#include <cstdint>
#include <vector>

using namespace shardwise;
using detail::MailProtocol;
using detail::StepProtocol;
using shardwise::testing::Explorer;
using shardwise::testing::ModelAtomic;
using shardwise::testing::ModelCell;

namespace {

/// Mistakes that others made in such protocols (facts/reliability.md), planted one at a time.
enum class Mistake {
    none,
    relaxed_publish,    // a flag without the release that goes with it
    relaxed_wait,       // a relaxed start barrier: torn reads
    one_half,           // no exit barrier and no second half; of two ranks, no areas in turn
    early_publish,      // the flag before the data
    flags_do_not_wrap,  // steps compared as plain numbers
    skipped_rank,       // a rank that is not waited for
    lagging_wait,       // waiting for the step before
    late_reset,         // flags that hold what an earlier group left, set back when others may look already
    shared_counter,     // two kinds of steps on one flag, each waiting for its own count
    other_grid,         // a rank that takes fewer steps than its peers wait for
    own_area,           // of two ranks: reading what one wrote oneself, which the peer may write over
    same_area,          // of two ranks: one counts its areas from another step
    failed_writer,  // of two ranks: one that gives up waiting writes for a further step, where a late one writes still
    gives_up,       // no mistake: the same without writing
};

/// An atomic whose orders are what the mistake makes of them.
class Flag {
public:
    Flag(std::uint32_t value, Mistake mistake) : atomic_(value), mistake_(mistake) {}

    [[nodiscard]] std::uint32_t load(std::memory_order order) const {
        return atomic_.load(mistake_ == Mistake::relaxed_wait ? std::memory_order_relaxed : order);
    }
    void store(std::uint32_t value, std::memory_order order) {
        atomic_.store(value, mistake_ == Mistake::relaxed_publish ? std::memory_order_relaxed : order);
    }

private:
    ModelAtomic<std::uint32_t> atomic_;
    Mistake mistake_;
};

/// All executions of `steps` steps: every rank writes its half or area, publishes, waits for all and reads all others. A bit of
/// `halves` says of a step of two ranks that its message is short and goes beside the flag, in one of two halves.
Explorer::Outcome explore_steps(std::size_t ranks, std::uint32_t steps, std::uint32_t first, Mistake mistake,
                                std::uint32_t halves = 0) {
    struct State {
        std::vector<Flag> arrived;  // of each rank, by the step's parity
        std::vector<ModelCell> cells;
        std::vector<ModelCell> areas;
    };
    State state;
    Explorer explorer;
    auto const count = static_cast<std::int32_t>(ranks);
    auto const is_in_half = [&](std::uint32_t step) {
        return !StepProtocol::swaps(count) || (halves >> (step - first)) % 2 == 1;
    };
    auto const written = [&](std::size_t rank, std::uint32_t step) -> ModelCell& {
        auto const half = mistake == Mistake::one_half ? 0 : StepProtocol::half_to_write(step);
        if (is_in_half(step)) return state.cells[rank * 2 + half];
        if (mistake == Mistake::one_half) return state.areas[rank];
        auto const counted = mistake == Mistake::same_area && rank == 1 ? step + 1 : step;
        auto const area = StepProtocol::area_to_write(static_cast<std::int32_t>(rank), count, counted);
        return state.areas[static_cast<std::size_t>(area)];
    };
    auto const readable = [&](std::size_t rank, std::uint32_t step) -> ModelCell& {
        auto const half = mistake == Mistake::one_half ? 0 : StepProtocol::half_to_read(step);
        if (is_in_half(step - 1)) return state.cells[rank * 2 + half];
        if (mistake == Mistake::one_half) return state.areas[rank];
        auto const area = StepProtocol::area_to_read(static_cast<std::int32_t>(rank), count, step);
        return state.areas[static_cast<std::size_t>(area)];
    };
    auto const flag = [&](std::size_t rank, std::uint32_t step) -> Flag& {
        return state.arrived[rank * 2 + StepProtocol::half_to_read(step)];
    };
    auto const prepare = [&] {
        state = {};
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            for (int half = 0; half < 2; ++half) {
                state.arrived.emplace_back(mistake == Mistake::late_reset ? first + 2 : first, mistake);
                state.cells.emplace_back();
            }
            state.areas.emplace_back();
        }
    };
    auto const body = [&](std::size_t rank) {
        auto step = first;
        for (std::uint32_t half = 0; mistake == Mistake::late_reset && half < 2; ++half) {
            StepProtocol::publish(state.arrived[rank * 2 + half], first);
        }
        auto const own_steps = mistake == Mistake::other_grid && rank == 0 ? steps - 1 : steps;
        for (std::uint32_t turn = 0; turn < own_steps; ++turn) {
            auto const value = [&](std::size_t of) { return std::uint64_t{1000} * of + turn + 1; };
            auto& own = written(rank, step);
            ++step;
            if (mistake == Mistake::early_publish) StepProtocol::publish(flag(rank, step), step);
            own.write(value(rank));
            if (mistake != Mistake::early_publish) StepProtocol::publish(flag(rank, step), step);
            bool const gives_up = mistake == Mistake::gives_up || mistake == Mistake::failed_writer;
            if (gives_up && rank == 0 && turn + 1 == steps) {
                if (mistake == Mistake::failed_writer) written(rank, step).write(0);
                return;
            }
            // Of two kinds in turn, each counts its own steps only.
            auto const awaited = mistake == Mistake::lagging_wait     ? step - 1
                                 : mistake == Mistake::shared_counter ? first + turn / 2 + 1
                                                                      : step;
            for (std::size_t peer = 0; peer < ranks; ++peer) {
                if (peer == rank || (mistake == Mistake::skipped_rank && peer == 0)) continue;
                explorer.wait_until([&] {
                    auto const& theirs = flag(peer, awaited);
                    if (mistake == Mistake::flags_do_not_wrap) return theirs.load(std::memory_order_acquire) >= step;
                    return StepProtocol::has_published(theirs, awaited);
                });
            }
            for (std::size_t peer = 0; peer < ranks; ++peer) {
                if (peer == rank && mistake != Mistake::own_area) continue;
                if (readable(peer, step).read() != value(peer)) {
                    explorer.report("rank " + std::to_string(rank) + " reads another step's value");
                }
            }
        }
    };
    return explorer.explore(ranks, prepare, body);
}

/// All executions of `letters` letters from rank 0 to rank 1.
Explorer::Outcome explore_mail(std::uint32_t letters, std::uint32_t first, Mistake mistake) {
    struct State {
        std::vector<Flag> counts;  // written, read
        std::vector<ModelCell> halves;
    };
    State state;
    Explorer explorer;
    auto const prepare = [&] {
        state = {};
        for (int i = 0; i < 2; ++i) {
            state.counts.emplace_back(first, mistake);
            state.halves.emplace_back();
        }
    };
    auto const half = [&](std::uint32_t letter) -> ModelCell& {
        return state.halves[mistake == Mistake::one_half ? 0 : MailProtocol::half(letter)];
    };
    auto const body = [&](std::size_t rank) {
        for (auto letter = first; letter != first + letters; ++letter) {
            auto const value = std::uint64_t{100} + (letter - first);
            if (rank == 0) {
                if (mistake != Mistake::skipped_rank) {
                    explorer.wait_until([&] { return MailProtocol::may_write(state.counts[1], letter); });
                }
                half(letter).write(value);
                MailProtocol::pass_on(state.counts[0], letter);
            } else {
                explorer.wait_until([&] { return MailProtocol::has_letter(state.counts[0], letter); });
                if (half(letter).read() != value) explorer.report("another letter than was sent");
                MailProtocol::pass_on(state.counts[1], letter);
            }
        }
    };
    return explorer.explore(2, prepare, body);
}

}  // namespace

// The explorer switches stacks, which AddressSanitizer follows slowly.
TEST_SUITE_BEGIN("fibers");

TEST_CASE(
    "StepProtocol: no execution of two or three ranks races, blocks or reads a wrong step, also where steps wrap") {
    for (std::uint32_t const first : {0U, UINT32_MAX - 1U, UINT32_MAX - 2U}) {
        // All areas, all halves, and mixed.
        for (std::uint32_t const halves : {0b000000U, 0b111111U, 0b010101U, 0b001100U, 0b110010U}) {
            auto const two = explore_steps(2, 6, first, Mistake::none, halves);
            CHECK(two.problem == "");
            CHECK(two.executions > 5);
        }
        auto const three = explore_steps(3, 6, first, Mistake::none);
        CHECK(three.problem == "");
        CHECK(three.executions > 40);
    }
}

TEST_CASE("StepProtocol: each mistake that others made is caught") {
    for (std::size_t const ranks : {std::size_t{2}, std::size_t{3}}) {
        for (auto const mistake :
             {Mistake::relaxed_publish, Mistake::relaxed_wait, Mistake::one_half, Mistake::early_publish,
              Mistake::flags_do_not_wrap, Mistake::skipped_rank, Mistake::lagging_wait, Mistake::late_reset,
              Mistake::shared_counter, Mistake::other_grid}) {
            CAPTURE(static_cast<int>(mistake));
            for (std::uint32_t const halves : {0b000U, 0b111U}) {
                CHECK(explore_steps(ranks, 3, UINT32_MAX - 1U, mistake, halves).problem != "");
            }
        }
    }
    CHECK(explore_steps(2, 3, UINT32_MAX - 1U, Mistake::gives_up).problem == "");
    CHECK(explore_steps(3, 2, UINT32_MAX - 1U, Mistake::gives_up).problem == "");
    for (auto const mistake : {Mistake::own_area, Mistake::same_area, Mistake::failed_writer}) {
        CAPTURE(static_cast<int>(mistake));
        CHECK(explore_steps(2, 3, UINT32_MAX - 1U, mistake).problem != "");
    }
}

TEST_CASE(
    "StepProtocol: two ranks write where the other wrote before, and find each other's area, also where steps wrap") {
    for (std::uint32_t const step : {0U, 1U, 7U, UINT32_MAX}) {
        for (std::int32_t const rank : {0, 1}) {
            auto const area = StepProtocol::area_to_write(rank, 2, step);
            CHECK(area == 1 - StepProtocol::area_to_write(1 - rank, 2, step));
            CHECK(area == StepProtocol::area_to_read(rank, 2, step + 1));
            CHECK(StepProtocol::area_to_write(1 - rank, 2, step + 1) == area);
        }
        for (std::int32_t const rank : {0, 1, 2}) CHECK(StepProtocol::area_to_write(rank, 3, step) == rank);
    }
}

TEST_CASE("MailProtocol: letters arrive whole and in order in every execution, and each mistake is caught") {
    for (std::uint32_t const first : {0U, UINT32_MAX - 2U}) CHECK(explore_mail(7, first, Mistake::none).problem == "");
    for (auto const mistake :
         {Mistake::relaxed_publish, Mistake::relaxed_wait, Mistake::one_half, Mistake::skipped_rank}) {
        CAPTURE(static_cast<int>(mistake));
        CHECK(explore_mail(7, 0, mistake).problem != "");
    }
}

TEST_SUITE_END();
