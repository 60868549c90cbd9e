// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/detail/staging_ring.hpp>
#include <shardwise/comm/detail/step_protocol.hpp>
#include <shardwise/comm/traffic.hpp>
#include <shardwise/core/split.hpp>

#include <doctest/doctest.h>

#include "../comm/explorer.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

using namespace shardwise;
using detail::StagingRing;
using detail::StepProtocol;
using shardwise::testing::Explorer;
using shardwise::testing::ModelAtomic;
using shardwise::testing::ModelCell;

namespace {

/// Mistakes that others made in such protocols (facts/reliability.md), planted one at a time below the library's collectives.
enum class Mistake {
    none,
    relaxed_publish,    // a flag without the release that goes with it
    relaxed_wait,       // a relaxed start barrier: torn reads
    no_second_half,     // no exit barrier and no second half
    flags_do_not_wrap,  // steps compared as plain numbers
    skipped_rank,       // a rank that is not waited for
    lagging_wait,       // waiting for the step before
    lent_too_early,     // no step of its own while a claimed place may still be read
    other_grid,         // a rank whose data take another number of steps
};

/// 3 ranks sum this many in two shots.
constexpr std::int64_t longest = direct_sum_bytes / 4 + 100;
constexpr std::size_t chunk = 256;
constexpr std::size_t short_bytes = 64;
constexpr std::size_t loan_bytes = (direct_sum_bytes + 400 + 63) / 64 * 64;

/// What the ranks share: memory as it is, and beside each place of it a cell that says who reads and writes it. Places are an
/// area, a half, a piece of a ring, or a part of a ring that is lent.
struct Shared {
    std::vector<ModelAtomic<std::uint32_t>> arrived;  // of each rank, by the step's parity
    std::vector<ModelCell> calls;                     // with them
    std::vector<ModelCell> news;                      // of each call and rank: what is written before a barrier
    std::vector<ModelCell> places;               // of each rank: two halves, two short pieces, an area, a ring in parts
    std::vector<std::vector<std::byte>> memory;  // of each place, a ring in one

    static constexpr std::size_t halves = 0;
    static constexpr std::size_t shorts = 2;
    static constexpr std::size_t area = 4;
    static constexpr std::size_t ring = 5;
    static constexpr std::size_t ring_cells = 24;
    static constexpr std::size_t of_rank = ring + ring_cells;

    ModelCell& cell(std::int32_t rank, std::size_t place) {
        return places[static_cast<std::size_t>(rank) * of_rank + place];
    }
    std::byte* bytes(std::int32_t rank, std::size_t place) {
        return memory[static_cast<std::size_t>(rank) * (ring + 1) + place].data();
    }
};

/// A communicator as detail::StagedRank is one, whose flags and places are those of the explorer.
class ModelRank {
public:
    ModelRank(Shared& shared, Explorer& explorer, std::int32_t rank, std::int32_t ranks, std::uint32_t first,
              Mistake mistake)
        : shared_(&shared), explorer_(&explorer), rank_(rank), ranks_(ranks), step_(first), mistake_(mistake) {}

    [[nodiscard]] std::int32_t rank() const { return rank_; }
    [[nodiscard]] std::int32_t size() const { return ranks_; }
    [[nodiscard]] Traffic& traffic() { return traffic_; }
    void took(std::int64_t, std::int64_t) {}
    Result<> send_bytes(std::int32_t, Dtype, std::byte const*, std::int64_t, std::size_t) { return {}; }
    Result<> receive_bytes(std::int32_t, Dtype, std::byte*, std::int64_t, std::size_t) { return {}; }
    Result<> fail(Error const& error) { return error; }

    void begin(CollectiveCall const& call) { call_ = call; }
    [[nodiscard]] std::byte* mine(std::size_t bytes) {
        auto const half = mistake_ == Mistake::no_second_half ? 0 : StepProtocol::half_to_write(step_);
        if (bytes <= 32) return take(rank_, Shared::halves + half);
        if (StepProtocol::swaps(ranks_)) return take(StepProtocol::area_to_write(rank_, ranks_, step_), Shared::area);
        if (bytes <= short_bytes) return take(rank_, Shared::shorts + half);
        // A piece is a cell, whatever its length.
        auto const piece = ring_.claim(1, StagingRing::min_pieces);
        return take(rank_, Shared::ring + piece) + piece * chunk;
    }
    void put(std::byte* to, void const* from, std::size_t bytes) {
        if (bytes == 0) return;
        if (is_lending_) touch_loan(rank_, true);
        std::memcpy(to, from, bytes);
    }
    [[nodiscard]] std::byte const* theirs(std::int32_t rank) {
        auto place = place_;
        auto owner = rank;
        if (place == Shared::area) owner = StepProtocol::area_to_read(rank, ranks_, step_);
        (void)shared_->cell(owner, place).read();
        return memory_of(owner, place);
    }
    Result<> step() {
        auto const flag = [&](std::int32_t rank, std::uint32_t step) {
            return static_cast<std::size_t>(rank) * 2 + StepProtocol::half_to_read(step);
        };
        auto const own = flag(rank_, step_ + 1);
        shared_->calls[own].write(static_cast<std::uint64_t>(call_.kind));
        ++step_;
        if (mistake_ == Mistake::relaxed_publish)
            shared_->arrived[own].store(step_, std::memory_order_relaxed);
        else
            StepProtocol::publish(shared_->arrived[own], step_);
        auto const awaited = mistake_ == Mistake::lagging_wait ? step_ - 1 : step_;
        for (std::int32_t peer = 0; peer < ranks_; ++peer) {
            if (peer == rank_ || (mistake_ == Mistake::skipped_rank && peer == 0)) continue;
            auto const& theirs = shared_->arrived[flag(peer, awaited)];
            explorer_->wait_until([&] {
                if (mistake_ == Mistake::flags_do_not_wrap) return theirs.load(std::memory_order_acquire) >= awaited;
                if (mistake_ != Mistake::relaxed_wait) return StepProtocol::has_published(theirs, awaited);
                return static_cast<std::int32_t>(theirs.load(std::memory_order_relaxed) - awaited) >= 0;
            });
        }
        for (std::int32_t peer = 0; peer < ranks_; ++peer) {
            if (peer != rank_ && shared_->calls[flag(peer, step_)].read() != static_cast<std::uint64_t>(call_.kind))
                explorer_->report("rank " + std::to_string(rank_) + " reads another step's call");
        }
        // The second step of a loan is over: the answers are read.
        if (is_lending_ && ++lent_steps_ == 2) {
            touch_loan(rank_, false);
            is_lending_ = false;
        }
        return {};
    }
    [[nodiscard]] std::size_t chunk_bytes() const { return chunk; }
    Result<std::byte*> lend() {
        if (!ring_.is_clear()) {
            if (mistake_ != Mistake::lent_too_early) {
                if (auto const stepped = step(); !stepped) return stepped.error();
            }
            ring_.clear();
        }
        is_lending_ = true;
        lent_steps_ = 0;
        return shared_->bytes(rank_, Shared::ring);
    }
    [[nodiscard]] std::byte* lent(std::int32_t rank) {
        // Its part is read, and the answer put there.
        touch_part(rank, rank_, false);
        touch_part(rank, rank_, true);
        return shared_->bytes(rank, Shared::ring);
    }
    [[nodiscard]] std::size_t lent_bytes() const { return StepProtocol::swaps(ranks_) ? 0 : loan_bytes; }

private:
    std::byte* memory_of(std::int32_t rank, std::size_t place) {
        return place < Shared::ring ? shared_->bytes(rank, place)
                                    : shared_->bytes(rank, Shared::ring) + (place - Shared::ring) * chunk;
    }
    std::byte* take(std::int32_t owner, std::size_t place) {
        place_ = place;
        shared_->cell(owner, place).write(0);
        return shared_->bytes(owner, place < Shared::ring ? place : Shared::ring);
    }
    /// The part of one rank of a ring that is lent: its first part holds the claimed pieces, too.
    void touch_part(std::int32_t owner, std::int32_t part, bool is_write) {
        auto const touch = [&](std::size_t place) {
            auto& cell = shared_->cell(owner, Shared::ring + place);
            if (is_write)
                cell.write(0);
            else
                (void)cell.read();
        };
        touch(StagingRing::min_pieces + static_cast<std::size_t>(part));
        for (std::size_t piece = 0; part == 0 && piece < StagingRing::min_pieces; ++piece) touch(piece);
    }
    void touch_loan(std::int32_t owner, bool is_write) {
        for (std::int32_t part = 0; part < ranks_; ++part) {
            if (part != rank_) touch_part(owner, part, is_write);
        }
    }

    Shared* shared_;
    Explorer* explorer_;
    std::int32_t rank_;
    std::int32_t ranks_;
    std::uint32_t step_;
    Mistake mistake_;
    CollectiveCall call_{};
    StagingRing ring_;
    std::size_t place_ = 0;
    bool is_lending_ = false;
    int lent_steps_ = 0;
    Traffic traffic_;
};
static_assert(Communicator<ModelRank> && SharesMemory<ModelRank>);

std::int32_t value_of(std::size_t rank, std::size_t call, std::int64_t i) {
    return static_cast<std::int32_t>(rank * 7 + call * 31 + static_cast<std::size_t>(i) % 13);
}

/// All executions of these calls one after another: a barrier where the length is negative, else an all_reduce of so many.
Explorer::Outcome explore(std::int32_t ranks, std::vector<std::int64_t> const& calls, std::uint32_t first,
                          Mistake mistake) {
    Shared shared;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        for (std::size_t place = 0; place < Shared::ring; ++place) shared.memory.emplace_back(chunk);
        shared.memory.emplace_back(loan_bytes);
    }
    // Not on the ranks' stacks: an execution that was seen before is left in its middle.
    std::vector<std::vector<std::int32_t>> data(static_cast<std::size_t>(ranks));
    Explorer explorer;
    auto const prepare = [&] {
        shared.arrived.clear();
        shared.calls.clear();
        shared.places.clear();
        shared.news.clear();
        for (std::size_t i = 0; i < calls.size() * static_cast<std::size_t>(ranks); ++i) shared.news.emplace_back();
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
            for (int half = 0; half < 2; ++half) {
                shared.arrived.emplace_back(first);
                shared.calls.emplace_back();
            }
            for (std::size_t place = 0; place < Shared::of_rank; ++place) shared.places.emplace_back();
        }
    };
    auto const body = [&](std::size_t rank) {
        ModelRank comm(shared, explorer, static_cast<std::int32_t>(rank), ranks, first, mistake);
        auto& own = data[rank];
        for (std::size_t call = 0; call < calls.size(); ++call) {
            if (calls[call] < 0) {
                auto const news = [&](std::size_t of) -> ModelCell& {
                    return shared.news[call * static_cast<std::size_t>(ranks) + of];
                };
                news(rank).write(call + 1);
                (void)barrier(comm);
                for (std::size_t peer = 0; peer < static_cast<std::size_t>(ranks); ++peer) {
                    if (news(peer).read() != call + 1)
                        explorer.report("rank " + std::to_string(rank) + " has passed a barrier before all came");
                }
                continue;
            }
            auto const is_shorter = mistake == Mistake::other_grid && rank == 0;
            auto const length = is_shorter ? calls[call] / 2 : calls[call];
            own.resize(static_cast<std::size_t>(length));
            for (std::int64_t i = 0; i < length; ++i) own[static_cast<std::size_t>(i)] = value_of(rank, call, i);
            (void)all_reduce(comm, TensorView<std::int32_t, 1, Host>{own.data(), {length}});
            for (std::int64_t i = 0; i < length; ++i) {
                std::int32_t sum = 0;
                for (std::size_t peer = 0; peer < static_cast<std::size_t>(ranks); ++peer)
                    sum += value_of(peer, call, i);
                if (own[static_cast<std::size_t>(i)] == sum) continue;
                explorer.report("rank " + std::to_string(rank) + " has another sum");
                break;
            }
        }
    };
    return explorer.explore(static_cast<std::size_t>(ranks), prepare, body);
}

/// Calls whose data are short, in a piece, in several, and of 3 ranks lent.
std::vector<std::vector<std::int64_t>> calls_of(std::int32_t ranks) {
    if (ranks == 2) return {{-1, 3, 150, -1}, {40, 150, 3}, {3, 3, 3}, {150, 150}};
    return {{-1, 3, 40, -1}, {3, 10, 10}, {150, 40}, {10, 40, longest}, {longest, longest}, {longest, 40, -1}};
}

}  // namespace

// The explorer switches stacks, which AddressSanitizer follows slowly.
TEST_SUITE_BEGIN("fibers");

TEST_CASE("all_reduce and barrier: no execution of two or three ranks races, blocks or gives another sum") {
    for (std::int32_t const ranks : {2, 3}) {
        for (auto const& calls : calls_of(ranks)) {
            for (std::uint32_t const first : {0U, UINT32_MAX - 2U}) {
                CAPTURE(ranks);
                CAPTURE(calls.front());
                auto const outcome = explore(ranks, calls, first, Mistake::none);
                CHECK(outcome.problem == "");
                CHECK(outcome.executions > (ranks == 2 ? 2 : 20));
            }
        }
    }
}

TEST_CASE("all_reduce and barrier: each mistake that others made is caught below the library's own collectives") {
    for (std::int32_t const ranks : {2, 3}) {
        for (auto const mistake : {Mistake::relaxed_publish, Mistake::relaxed_wait, Mistake::flags_do_not_wrap,
                                   Mistake::skipped_rank, Mistake::lagging_wait, Mistake::other_grid}) {
            CAPTURE(ranks);
            CAPTURE(static_cast<int>(mistake));
            for (auto const& calls : calls_of(ranks))
                CHECK(explore(ranks, calls, UINT32_MAX - 1U, mistake).problem != "");
        }
        CHECK(explore(ranks, {3, 3, 3}, 0, Mistake::no_second_half).problem != "");
    }
    CHECK(explore(3, {100, longest}, 0, Mistake::lent_too_early).problem != "");
}

TEST_SUITE_END();
