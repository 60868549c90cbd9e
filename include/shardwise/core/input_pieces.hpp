// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/split.hpp>

#include <cstdint>
#include <numeric>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How the inputs of a row-parallel weight (attention output, down projection) are cut into pieces that ranks own whole, in
/// order, sharded by split_units. Grains are what a piece is made of: inputs that cannot be parted (a head, a quantised block).
///
/// Units  inputs are columns of the weight [outputs, inputs]
struct InputPieces {
    std::int64_t inputs = 0;
    std::int64_t grain = 1;
    /// At most one per grain.
    std::int64_t count = 0;

    [[nodiscard]] constexpr std::int64_t grains() const { return ceil_divide(inputs, grain); }
    /// Where a piece begins; `count` is the end of the last. Pieces differ by one grain at most.
    [[nodiscard]] constexpr std::int64_t begin_of(std::int64_t piece) const {
        if (count == 0) return 0;
        auto const begin = grains() * piece / count * grain;
        return begin < inputs ? begin : inputs;
    }
    /// The inputs of some pieces.
    [[nodiscard]] constexpr UnitRange inputs_of(UnitRange pieces) const {
        return {begin_of(pieces.begin), begin_of(pieces.end)};
    }
    /// The pieces of one rank, and their inputs. With pieces of one input these are split_units' of the inputs.
    [[nodiscard]] constexpr UnitRange pieces_of(std::int64_t ranks, std::int64_t rank) const {
        return split_units(count, ranks, rank);
    }
    [[nodiscard]] constexpr UnitRange inputs_of_rank(std::int64_t ranks, std::int64_t rank) const {
        return inputs_of(pieces_of(ranks, rank));
    }

    friend constexpr bool operator==(InputPieces const&, InputPieces const&) = default;
};

/// Pieces of an attention's output: a query head each, or the fewest heads that are whole blocks of the weight's format.
/// With one head each, heads are sharded as the estimator shards them. No pieces of heads without a number or a width.
[[nodiscard]] constexpr InputPieces head_pieces(std::int64_t heads, std::int64_t head_dim, std::int64_t block = 1) {
    if (heads < 1 || head_dim < 1 || block < 1) return {};
    auto const grain = std::lcm(head_dim, block);
    return {heads * head_dim, grain, ceil_divide(heads * head_dim, grain)};
}

/// The finest pieces of a width without heads: one per block of the weight's format. With blocks of one input the shares are
/// the estimator's.
[[nodiscard]] constexpr InputPieces block_pieces(std::int64_t width, std::int64_t block = 1) {
    return {width, block, ceil_divide(width, block)};
}

/// Leaves of a sum over a width without heads, by its shape alone, so that the sum does not depend on the ranks: 64, or one
/// per block where there are fewer. The largest of p shares is then at most 1/p + (1 - 1/p)/64 of the width and one block,
/// under 2 % above 1/p from 250 blocks on; and as 64 is a power of two, each of 2, 4, 8, ... ranks has one node of the tree to
/// send. Shares differ from the estimator's (block_pieces) by less than a leaf and a block.
[[nodiscard]] constexpr InputPieces leaf_pieces(std::int64_t width, std::int64_t block = 1) {
    constexpr std::int64_t leaves = 64;
    auto const blocks = ceil_divide(width, block);
    return {width, block, blocks < leaves ? blocks : leaves};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
