// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

// Device code reads this: no other standard header.

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The value of an IEEE half; NaNs keep their payload and become quiet.
[[nodiscard]] constexpr float from_f16(std::uint16_t half) {
    auto const sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
    auto const exponent = static_cast<std::uint32_t>(half >> 10U) & 0x1FU;
    auto const mantissa = static_cast<std::uint32_t>(half & 0x3FFU);
    if (exponent == 0) {
        auto const magnitude = static_cast<float>(mantissa) * 0x1p-24F;
        return sign != 0 ? -magnitude : magnitude;
    }
    if (exponent == 31) {
        auto const quiet = mantissa != 0 ? 0x400000U : 0U;
        return __builtin_bit_cast(float, sign | 0x7F800000U | quiet | (mantissa << 13U));
    }
    return __builtin_bit_cast(float, sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
}

/// The value of a bfloat16.
[[nodiscard]] constexpr float from_bf16(std::uint16_t bits) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16U);
}

/// The nearest bfloat16, ties to even; NaNs stay NaNs.
[[nodiscard]] constexpr std::uint16_t to_bf16(float value) {
    auto const bits = __builtin_bit_cast(std::uint32_t, value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

/// The nearest IEEE half, ties to even; what is too large becomes infinite, NaNs stay NaNs.
[[nodiscard]] constexpr std::uint16_t to_f16(float value) {
    auto const bits = __builtin_bit_cast(std::uint32_t, value);
    auto const sign = static_cast<std::uint32_t>((bits >> 16U) & 0x8000U);
    auto const magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U | ((magnitude >> 13U) & 0x3FFU));
    if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // 65536 and more
    auto const exponent = magnitude >> 23U;
    if (exponent < 102U) return static_cast<std::uint16_t>(sign);  // below half of the smallest half
    // Halves below 2^-14 have no leading one: their mantissa is shifted further.
    auto const shift = exponent < 113U ? 126U - exponent : 13U;
    auto const mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
    auto const kept = mantissa >> shift;
    auto const rest = mantissa & ((1U << shift) - 1U);
    auto const middle = 1U << (shift - 1U);
    auto const rounded = kept + (rest > middle || (rest == middle && (kept & 1U) != 0) ? 1U : 0U);
    auto const base = exponent < 113U ? 0U : (exponent - 113U) << 10U;
    return static_cast<std::uint16_t>(sign | (base + rounded));
}

/// A bfloat16 value as memory holds it; arithmetic is done in float.
struct Bfloat16 {
    std::uint16_t bits = 0;

    constexpr Bfloat16() = default;
    constexpr explicit Bfloat16(float value) : bits(to_bf16(value)) {}
    [[nodiscard]] constexpr explicit operator float() const { return from_bf16(bits); }
};

/// An IEEE half-precision value as memory holds it; arithmetic is done in float.
struct Float16 {
    std::uint16_t bits = 0;

    constexpr Float16() = default;
    constexpr explicit Float16(float value) : bits(to_f16(value)) {}
    [[nodiscard]] constexpr explicit operator float() const { return from_f16(bits); }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
