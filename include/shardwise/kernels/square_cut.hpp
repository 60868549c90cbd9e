// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/input_pieces.hpp>
#include <shardwise/core/split.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Which squares of whole rows a rank adds up, that holds some columns of them: in one number for each piece.
struct SquareCut {
    /// Of a whole row.
    InputPieces pieces;
    /// The whole row's column that is the first of the rank's rows.
    std::int64_t first = 0;
    /// The whole row's columns that the rank adds up: of those that several ranks hold, one does.
    UnitRange counted;

    /// What the rank adds up of a piece, as columns of its own rows.
    [[nodiscard]] constexpr UnitRange columns_of(std::int64_t piece) const {
        auto const begin = std::max(pieces.begin_of(piece), counted.begin);
        auto const end = std::max(begin, std::min(pieces.begin_of(piece + 1), counted.end));
        return {begin - first, end - first};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
