// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/weight_source.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/executor/held_format.hpp>
#include <shardwise/executor/training/parameter_piece.hpp>
#include <shardwise/parallel/weight_slice.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a rank holds of a frozen product in a format of its own: rows of [outputs, inputs], in the order of what the product makes, and of
/// each the inputs that it wants with those that share a block with them.
struct HeldPart {
    HeldFormat format;
    std::vector<UnitRange> rows;
    /// Of the whole product's inputs: those that are wanted, and those that are held.
    UnitRange columns;
    UnitRange blocks;
    /// Where its data and scales lie among those of all parts of a rank, and how many bytes they take with the gaps between them: whole words
    /// of four.
    std::int64_t begin = 0;
    std::int64_t bytes = 0;

    [[nodiscard]] static HeldPart create(HeldFormat format, std::vector<UnitRange> rows, UnitRange columns,
                                         std::int64_t inputs) {
        auto const grain = input_grain(format.format, format.group);
        UnitRange const blocks{columns.begin / grain * grain, std::min(round_up(columns.end, grain), inputs)};
        return {format, std::move(rows), columns, blocks, 0, 0};
    }
    /// Its extents, without data.
    [[nodiscard]] WeightSource source() const {
        return {.format = format.format,
                .outputs = ParameterPiece::count(rows),
                .inputs = blocks.size(),
                .data = {},
                .scales = {},
                .group = format.group};
    }
    /// Floats that its bytes take the place of.
    [[nodiscard]] std::int64_t words() const { return bytes / static_cast<std::int64_t>(sizeof(float)); }
    [[nodiscard]] std::int64_t elements() const { return ParameterPiece::count(rows) * blocks.size(); }
    /// Rows that are decoded at a time: as many as products sum at a time, so that sums over rows have the bits of all at once.
    static constexpr std::int64_t decoded_together = 256;
    /// Elements that are decoded at a time.
    [[nodiscard]] std::int64_t decoded_elements() const {
        return std::min<std::int64_t>(ParameterPiece::count(rows), decoded_together) * blocks.size();
    }
};

/// How tensor-parallel ranks share such a product, by rank: the rows or columns that each computes with, and those that are cut along the
/// other axis, for the product whose sum no rank can take alone.
struct HeldCut {
    std::vector<HeldPart> own;
    std::vector<HeldPart> turned;
};

/// A part with its data, as products read it.
struct HeldProduct {
    WeightSource source;
    /// The columns of the decoded rows that are wanted.
    UnitRange columns;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
