// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/multiply_call.hpp>
#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Ranges of inputs whose products a kernel sums in one go, and how deep their tree is at most.
inline constexpr int max_sum_leaves = 256;
inline constexpr int max_sum_depth = 9;

/// Sums of products by ranges of a weight's inputs, in the order of a tree: after each range's product so many of those before it are
/// added to it, the last first, and it is a result where a tree ends with it.
struct MultiplySumsCall {
    /// By the whole weight; `in` begins with the first range's inputs, and `out` with the first result. Both lie in float, or `in` in
    /// halves.
    MultiplyCall product;
    /// Elements from one result to the next.
    std::int64_t out_sum;
    /// Where a range lies in a row of the weight: bits of an element, bytes of the planes of 32, elements that share a scale (0: all of a
    /// row), bytes of a scale, and of what multiplies those of 256.
    std::int32_t quant_bits;
    std::int32_t plane_bytes;
    std::int32_t scale_elements;
    std::int32_t scale_bytes;
    std::int32_t super_bytes;
    std::int32_t leaves;
    /// Where ranges begin, one after another, and where the last ends.
    std::int32_t begins[max_sum_leaves + 1];
    std::uint8_t merges[max_sum_leaves];
    bool ends[max_sum_leaves];
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
