// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/detail/peer_protocol.hpp>

#include <doctest/doctest.h>

#include "../comm/explorer.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using detail::PeerProtocol;
using shardwise::testing::Explorer;
using shardwise::testing::ModelAtomic;
using shardwise::testing::ModelCell;

namespace {

/// Mistakes that others made in such kernels (facts/reliability.md), planted one at a time.
enum class Mistake {
    none,
    relaxed_tell,       // a flag without the fence that goes with it
    relaxed_wait,       // a relaxed start barrier: torn reads
    one_half,           // neither an exit barrier nor a second half
    early_tell,         // the flag before the data
    flags_do_not_wrap,  // steps compared as plain numbers
    skipped_rank,       // a rank that is not waited for
    lagging_wait,       // waiting for the step before
};

struct Memory {
    std::vector<std::vector<ModelAtomic<std::uint32_t>>> flags;  // [rank][rank that tells]
    std::vector<std::vector<ModelCell>> halves;                  // [rank][half]
};

/// A block of a rank's kernel whose memory is the explorer's.
class ModelBlock {
public:
    ModelBlock(Explorer& explorer, Memory& memory, std::size_t rank, std::size_t ranks, std::uint32_t first,
               Mistake mistake)
        : explorer_(explorer), memory_(memory), rank_(rank), ranks_(ranks), step_(first), mistake_(mistake) {}

    bool begin() { return true; }
    [[nodiscard]] std::uint32_t last_step() const { return step_; }
    void write(std::uint32_t half) {
        if (mistake_ == Mistake::early_tell) send(step_ + 1);
        ++turn_;
        cell(rank_, half).write(value(rank_));
    }
    void tell(std::uint32_t step) {
        if (mistake_ != Mistake::early_tell) send(step);
    }
    bool wait(std::uint32_t step) {
        for (std::size_t peer = 0; peer < ranks_; ++peer) {
            if (peer == rank_ || (mistake_ == Mistake::skipped_rank && peer == 0)) continue;
            explorer_.wait_until([&] {
                auto const order =
                    mistake_ == Mistake::relaxed_wait ? std::memory_order_relaxed : std::memory_order_acquire;
                auto const flag = memory_.flags[rank_][peer].load(order);
                if (mistake_ == Mistake::flags_do_not_wrap) return flag >= step;
                return PeerProtocol::has_arrived(flag, mistake_ == Mistake::lagging_wait ? step - 1 : step);
            });
        }
        return true;
    }
    void read(std::uint32_t half) {
        for (std::size_t peer = 0; peer < ranks_; ++peer) {
            if (cell(peer, half).read() != value(peer)) {
                explorer_.report("rank " + std::to_string(rank_) + " reads another step's value");
            }
        }
    }
    void end(std::uint32_t step) { step_ = step; }

private:
    ModelCell& cell(std::size_t rank, std::uint32_t half) {
        return memory_.halves[rank][mistake_ == Mistake::one_half ? 0 : half];
    }
    [[nodiscard]] std::uint64_t value(std::size_t rank) const { return 1000 * rank + turn_; }
    void send(std::uint32_t step) {
        auto const order = mistake_ == Mistake::relaxed_tell ? std::memory_order_relaxed : std::memory_order_release;
        for (std::size_t peer = 0; peer < ranks_; ++peer) {
            if (peer != rank_) memory_.flags[peer][rank_].store(step, order);
        }
    }

    Explorer& explorer_;
    Memory& memory_;
    std::size_t rank_;
    std::size_t ranks_;
    std::uint32_t step_;
    Mistake mistake_;
    std::uint64_t turn_ = 0;
};

/// All executions of `steps` exchanges whose step numbers begin after `first`.
Explorer::Outcome explore(std::size_t ranks, int steps, std::uint32_t first, Mistake mistake) {
    Memory memory;
    Explorer explorer;
    auto const prepare = [&] {
        memory = {};
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            memory.flags.emplace_back();
            for (std::size_t peer = 0; peer < ranks; ++peer) memory.flags.back().emplace_back(first);
            memory.halves.emplace_back(2);
        }
    };
    auto const body = [&](std::size_t rank) {
        ModelBlock block(explorer, memory, rank, ranks, first, mistake);
        for (int step = 0; step < steps; ++step) {
            if (!PeerProtocol::exchange(block)) explorer.report("an exchange failed");
        }
    };
    return explorer.explore(ranks, prepare, body);
}

}  // namespace

TEST_CASE("PeerProtocol: a flag has arrived in its step and the next one, also where numbers wrap around") {
    for (std::uint32_t const step : {1U, 2U, UINT32_MAX, 0U}) {
        CHECK(PeerProtocol::has_arrived(step, step));
        CHECK(PeerProtocol::has_arrived(step + 1U, step));
        CHECK_FALSE(PeerProtocol::has_arrived(step - 1U, step));
    }
}

// The explorer switches stacks, which AddressSanitizer follows slowly.
TEST_SUITE_BEGIN("fibers");

TEST_CASE(
    "PeerProtocol: no execution of two or three ranks races, blocks or reads a wrong step, also where steps wrap") {
    for (std::uint32_t const first : {0U, UINT32_MAX - 1U, UINT32_MAX - 2U}) {
        auto const two = explore(2, 6, first, Mistake::none);
        CHECK(two.problem == "");
        CHECK(two.executions > 10);
    }
    auto const three = explore(3, 3, UINT32_MAX - 1U, Mistake::none);
    CHECK(three.problem == "");
    CHECK(three.executions > 1000);
}

TEST_CASE("PeerProtocol: each mistake that others made is caught") {
    for (std::size_t const ranks : {std::size_t{2}, std::size_t{3}}) {
        for (auto const mistake : {Mistake::relaxed_tell, Mistake::relaxed_wait, Mistake::one_half, Mistake::early_tell,
                                   Mistake::flags_do_not_wrap, Mistake::skipped_rank, Mistake::lagging_wait}) {
            auto const outcome = explore(ranks, 3, UINT32_MAX - 1U, mistake);
            CAPTURE(static_cast<int>(mistake));
            CHECK(outcome.problem != "");
        }
    }
}

TEST_SUITE_END();
