// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/panel.hpp>
#include <shardwise/core/checked.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A block of 32 activations as ProductActivations::int8 rounds them: x = scale * value, the values of -127 to 127.
struct RoundedRecord {
    std::int8_t values[32];
    /// What sums of products by codes start from, because codes have an offset; for each part of the block.
    std::int32_t starts[2];
    float scale;
    /// scale * the sum of the values.
    float sum;
};
static_assert(sizeof(RoundedRecord) == 48);

/// Bytes of the records of a row.
[[nodiscard]] inline std::int64_t rounded_bytes(std::int64_t inputs) {
    return ceil_divide(inputs, quant_block) * static_cast<std::int64_t>(sizeof(RoundedRecord));
}

/// The scale of a block whose largest magnitude has these bits, and one over it; a scale that is no number where a value is not
/// finite. Magnitudes below 2^-100 are taken for that, so that neither is subnormal or infinite.
struct RoundedScale {
    float scale;
    float inverse;
};
[[nodiscard]] inline RoundedScale rounded_scale(std::int32_t largest_bits) {
    if (largest_bits >= 0x7F800000) return {std::numeric_limits<float>::quiet_NaN(), 0.0F};
    auto const largest = std::max(std::bit_cast<float>(largest_bits), 0x1p-100F);
    return {largest / 127.0F, 127.0F / largest};
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
