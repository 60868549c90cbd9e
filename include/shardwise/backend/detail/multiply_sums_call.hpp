// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/multiply_call.hpp>
#include <shardwise/backend/detail/row_element.hpp>
#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Products that one call of a device's multiply_sums adds up: each result's products lie in shared memory.
inline constexpr std::int64_t max_sum_products = 128;

/// How the products of multiply_sums lie for a kernel that reads them in packs.
enum class SumsLayout : std::uint8_t {
    /// Each begins on sixteen bytes of the weight and has whole chunks of it.
    chunks,
    /// Each begins on four elements and has fours of them.
    fours,
    any,
};

/// out[s, r, o]: products in[r] . weight[o] by ranges of the weight's inputs, added up in pairs. The ranges follow each other.
struct MultiplySumsCall {
    struct Addition {
        std::uint8_t to;
        std::uint8_t from;
    };

    /// The whole weight.
    DeviceWeightView weight;
    void const* in;
    std::int64_t in_row;
    float* out;
    std::int64_t out_row;
    std::int64_t out_sum;
    std::int64_t rows;
    /// The input of the weight that in's first column is.
    std::int64_t first_input;
    RowElement in_element = RowElement::f32;
    SumsLayout layout = SumsLayout::any;
    std::int32_t products = 0;
    std::int32_t sums = 0;
    std::int32_t levels = 0;
    /// Product i takes the inputs [begins[i], begins[i + 1]).
    std::int64_t begins[max_sum_products + 1] = {};
    /// products[to] += products[from], level after level: those of one level have nothing to do with each other.
    Addition additions[max_sum_products] = {};
    /// Where a level's additions end.
    std::uint8_t level_ends[max_sum_products] = {};
    /// The product in which a sum is at last.
    std::uint8_t results[max_sum_products] = {};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
