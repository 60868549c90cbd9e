// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/quant/float_bits.hpp>

#include <bit>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rounds a weight to two bytes where there is a place for them; false where that gives no number. By bits: a program that is compiled with
/// -ffast-math believes that there are no such numbers.
[[nodiscard]] inline bool round_weight(float value, Dtype dtype, std::uint16_t* out) {
    if (out == nullptr) return (std::bit_cast<std::uint32_t>(value) & 0x7F80'0000U) != 0x7F80'0000U;
    bool const is_half = dtype == Dtype::f16;
    auto const exponent = is_half ? 0x7C00U : 0x7F80U;
    *out = is_half ? to_f16(value) : to_bf16(value);
    return (*out & exponent) != exponent;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
