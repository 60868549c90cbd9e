// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>
#include <shardwise/quant/half_bits.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

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
