// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Floats of a sum of squares: of the elements, of the elements times 2^100, and of those times 2^-100. One of them is a normal float
/// whatever the elements are, and ranks can add up each.
constexpr std::int64_t square_floats = 3;

/// Sums of squares by pieces of whole rows (SquareCut) as their kernel takes them; a piece of which the rank has nothing gives zeros.
template <class T>
struct SquareSumsCall {
    T const* in;
    std::int64_t in_row;
    /// [rows, numbers, square_floats]
    float* sums;
    std::int64_t rows;
    std::int64_t numbers;
    /// Piece i of the whole row ends with grain `grains * (i + 1) / numbers`.
    std::int64_t grains;
    std::int64_t grain;
    /// The whole row's columns that are added up, of which `first` is the first of `in`.
    std::int64_t begin;
    std::int64_t end;
    std::int64_t first;
    /// Portions of all rows that begin with a piece are packs.
    bool is_packed;
};

/// Columns of an RMS norm whose rows' squares have been added up, as their kernel takes them.
template <class T>
struct ScaleBySquaresCall {
    T const* in;
    std::int64_t in_row;
    float const* weight;
    float const* sums;
    std::int64_t numbers;
    T* out;
    std::int64_t out_row;
    std::int64_t rows;
    std::int64_t width;
    /// The columns of a whole row.
    float whole;
    float epsilon;
    float offset;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
