// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <bit>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The nearest bfloat16, the even one of two that are as near; beyond the largest infinity. NaNs stay NaNs.
[[nodiscard]] constexpr std::uint16_t to_bf16(float value) {
    auto const bits = std::bit_cast<std::uint32_t>(value);
    bool const is_nan = (bits & 0x7FFF'FFFFU) > 0x7F80'0000U;
    if (is_nan) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

/// The nearest IEEE half, the even one of two that are as near; from 65,520 on infinity. NaNs stay NaNs.
[[nodiscard]] constexpr std::uint16_t to_f16(float value) {
    auto const bits = std::bit_cast<std::uint32_t>(value);
    auto const sign = (bits >> 16U) & 0x8000U;
    auto const size = bits & 0x7FFF'FFFFU;
    auto const signed_half = [sign](std::uint32_t half) { return static_cast<std::uint16_t>(sign | half); };
    if (size > 0x7F80'0000U) return signed_half(0x7E00U);
    // 65,520 lies half way between the largest half and what would be the next.
    if (size >= 0x477F'F000U) return signed_half(0x7C00U);
    auto const round = [](std::uint32_t mantissa, std::uint32_t dropped) {
        auto const half = 1U << (dropped - 1U);
        return (mantissa + (half - 1U) + ((mantissa >> dropped) & 1U)) >> dropped;
    };
    auto const exponent = size >> 23U;
    // Below 2^-14 halves are 2^-24 apart.
    constexpr std::uint32_t smallest_normal = 113;
    if (exponent < smallest_normal) {
        auto const dropped = smallest_normal - exponent + 13U;
        if (dropped > 24U) return signed_half(0);
        return signed_half(round((size & 0x7F'FFFFU) | 0x80'0000U, dropped));
    }
    // A mantissa that rounds up to the next power carries into the exponent.
    return signed_half(round(size - (112U << 23U), 13U));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
