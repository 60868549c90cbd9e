// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

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
        return std::bit_cast<float>(sign | 0x7F800000U | quiet | (mantissa << 13U));
    }
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
}

/// The value of a bfloat16.
[[nodiscard]] constexpr float from_bf16(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// The value of an eight-bit float with 4 exponent and 3 mantissa bits, no infinities (float8_e4m3fn).
[[nodiscard]] constexpr float from_e4m3(std::uint8_t bits) {
    auto const sign = static_cast<std::uint32_t>(bits & 0x80U) << 24U;
    auto const exponent = static_cast<std::uint32_t>(bits >> 3U) & 0xFU;
    auto const mantissa = static_cast<std::uint32_t>(bits & 7U);
    if ((bits & 0x7FU) == 0x7FU) return std::bit_cast<float>(sign | 0x7FF00000U);
    if (exponent == 0) {
        auto const magnitude = static_cast<float>(mantissa) * 0x1p-9F;
        return sign != 0 ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign | ((exponent + 120U) << 23U) | (mantissa << 20U));
}

/// The value of an eight-bit float with 5 exponent and 2 mantissa bits, the upper half of an IEEE half (float8_e5m2).
[[nodiscard]] constexpr float from_e5m2(std::uint8_t bits) {
    return from_f16(static_cast<std::uint16_t>(static_cast<unsigned>(bits) << 8U));
}

/// The power of two of an eight-bit exponent, 2^(bits - 127); 255 is NaN, a quiet one (float8_e8m0fnu).
[[nodiscard]] constexpr float from_e8m0(std::uint8_t bits) {
    if (bits == 0) return 0x1p-127F;
    if (bits == 255) return std::bit_cast<float>(0x7FC00000U);
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 23U);
}

/// The value of a four-bit float with 2 exponent bits and 1 mantissa bit, in the low bits of `nibble`.
///
/// Source  OCP Microscaling Formats (MX) 1.0, table 5
[[nodiscard]] constexpr float from_e2m1(std::uint8_t nibble) {
    constexpr std::array<float, 8> magnitudes{0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
    auto const magnitude = magnitudes[nibble & 7U];
    return (nibble & 8U) != 0 ? -magnitude : magnitude;
}

/// The nearest bfloat16, ties to even; NaNs stay NaNs.
[[nodiscard]] constexpr std::uint16_t to_bf16(float value) {
    auto const bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

/// The nearest IEEE half, ties to even; what is too large becomes infinite, NaNs stay NaNs.
[[nodiscard]] constexpr std::uint16_t to_f16(float value) {
    auto const bits = std::bit_cast<std::uint32_t>(value);
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

namespace detail {

/// Little-endian reads at a byte offset.
[[nodiscard]] constexpr std::uint16_t load_u16(std::span<std::uint8_t const> bytes, std::size_t at) {
    return static_cast<std::uint16_t>(bytes[at] | (static_cast<unsigned>(bytes[at + 1]) << 8U));
}
[[nodiscard]] constexpr std::uint32_t load_u32(std::span<std::uint8_t const> bytes, std::size_t at) {
    return load_u16(bytes, at) | (static_cast<std::uint32_t>(load_u16(bytes, at + 2)) << 16U);
}
/// The half at a byte offset.
[[nodiscard]] constexpr float load_f16(std::span<std::uint8_t const> bytes, std::size_t at) {
    return from_f16(load_u16(bytes, at));
}
/// The byte at an offset as a signed number.
[[nodiscard]] constexpr int load_i8(std::span<std::uint8_t const> bytes, std::size_t at) {
    return bytes[at] < 128 ? bytes[at] : static_cast<int>(bytes[at]) - 256;
}
/// `count` bits of the byte at an offset, from bit `shift` on.
[[nodiscard]] constexpr int load_bits(std::span<std::uint8_t const> bytes, std::size_t at, std::size_t shift,
                                      unsigned count) {
    return static_cast<int>((static_cast<unsigned>(bytes[at]) >> shift) & ((1U << count) - 1U));
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
