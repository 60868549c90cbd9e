// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/kernels/dropout.hpp>
#include <shardwise/model/block_program.hpp>
#include <shardwise/model/low_rank_operations.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Dropout of one pass over some sequences: on the hidden state before the first layer, on what layers add to it, and on what the halves A
/// of an adapter read. Which elements become 0 follows from these numbers and their places alone, in both passes and whoever computes them.
struct TrainingDropout {
    /// Of the purposes from here on: those of an adapter.
    static constexpr std::uint32_t first_low_rank = 128;

    /// 0: there is none.
    float rate = 0.0F;
    std::uint64_t seed = 0;
    std::uint64_t step = 0;
    /// Of each sequence of the pass, its number in the global batch; empty: nothing is dropped.
    List<std::uint32_t> sequences{};
    /// Of an adapter (LowRankOptions::dropout), which a pass knows from its program.
    float low_rank_rate = 0.0F;

    [[nodiscard]] bool is_any() const { return rate > 0.0F || low_rank_rate > 0.0F; }
    [[nodiscard]] float rate_of(std::uint32_t purpose) const { return purpose < first_low_rank ? rate : low_rank_rate; }
};

/// The input of an addition, or of an adapter's half A, that dropout is on, and which dropout of its block it is: additions are counted
/// from 1, halves from TrainingDropout::first_low_rank; 0: there is none.
struct DroppedInput {
    std::uint32_t purpose = 0;
    std::size_t input = 0;
};

namespace detail {

/// What is added to the hidden state: of two summands the one that was made from the other, or from the block's input where the other has
/// such summands already.
class DroppedInputs {
public:
    explicit DroppedInputs(BlockBody const& body) : count_(body.values().size()) {
        is_made_from_.assign(count_ * count_, 0);
        is_hidden_.assign(count_, 0);
        is_hidden_[0] = 1;
        for (auto const& op : body.operations()) add(op, body);
    }
    [[nodiscard]] List<DroppedInput> const& all() const { return all_; }

private:
    [[nodiscard]] char& is_made_from(ValueId out, ValueId in) {
        return is_made_from_[static_cast<std::size_t>(out) * count_ + static_cast<std::size_t>(in)];
    }
    [[nodiscard]] char& is_hidden(ValueId id) { return is_hidden_[static_cast<std::size_t>(id)]; }
    void add(Operation const& op, BlockBody const& body) {
        DroppedInput made;
        if (is_low_rank_dropout(op, body)) made.purpose = low_rank_++;
        if (op.kind == OpKind::add) {
            for (std::size_t i = 0; i < 2; ++i) {
                auto const own = op.inputs[i];
                auto const other = op.inputs[1 - i];
                bool const joins = is_hidden(other) != 0 && is_hidden(own) == 0 && is_made_from(own, 0) != 0;
                if (joins || is_made_from(own, other) != 0) made = {++purposes_, i};
            }
            if (made.purpose > 0) is_hidden(op.output) = 1;
        }
        for (auto const in : op.inputs) {
            if (in == no_value) continue;
            is_made_from(op.output, in) = 1;
            for (std::size_t i = 0; i < count_; ++i) {
                if (is_made_from(in, static_cast<ValueId>(i)) != 0)
                    is_made_from(op.output, static_cast<ValueId>(i)) = 1;
            }
        }
        all_.push_back(made);
    }

    std::size_t count_;
    std::uint32_t purposes_ = 0;
    std::uint32_t low_rank_ = TrainingDropout::first_low_rank;
    List<char> is_made_from_;
    List<char> is_hidden_;
    List<DroppedInput> all_;
};

}  // namespace detail

/// Of each operation of a block (`single_assignment`) the input that dropout is on, derived from the operations alone: in any family, what
/// attention and feed-forward add to the hidden state, and what an adapter's halves A read.
[[nodiscard]] inline List<DroppedInput> dropped_inputs(BlockBody const& body) {
    return detail::DroppedInputs(body).all();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
