// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/float_bits.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

// Types of one to two bits without sub-scales.
// Source: ggml-common.h (structs), ggml-quants.c (dequantize_row_*).

namespace detail {

/// Digit `place` of a byte that holds five digits to the base of three as a fraction of 256, less one: multiplied by a
/// power of three, the next digit stands above 256.
[[nodiscard]] constexpr int ternary_digit(std::uint8_t byte, std::size_t place) {
    constexpr std::array<unsigned, 5> powers{1, 3, 9, 27, 81};
    auto const fraction = (byte * powers[place]) & 0xFFU;
    return static_cast<int>((fraction * 3U) >> 8U) - 1;
}

}  // namespace detail

/// TQ1_0: d * {-1, 0, 1}, five elements in a byte to the base of three. Block of 256: 48 bytes of five, 4 of four, d.
constexpr void decode_tq1_0(std::span<std::uint8_t const, 54> block, std::span<float, 256> out) {
    auto const scale = detail::load_f16(block, 52);
    auto const digit = [&block](std::size_t byte, std::size_t place) {
        return static_cast<float>(detail::ternary_digit(block[byte], place));
    };
    for (std::size_t i = 0; i < 160; ++i) out[i] = scale * digit(i % 32, i / 32);
    for (std::size_t i = 0; i < 80; ++i) out[160 + i] = scale * digit(32 + i % 16, i / 16);
    for (std::size_t i = 0; i < 16; ++i) out[240 + i] = scale * digit(48 + i % 4, i / 4);
}

/// TQ2_0: d * (q - 1). Block of 256: 64 bytes in two-bit planes of 32 elements, d.
constexpr void decode_tq2_0(std::span<std::uint8_t const, 66> block, std::span<float, 256> out) {
    auto const scale = detail::load_f16(block, 64);
    for (std::size_t i = 0; i < 256; ++i) {
        auto const q = detail::load_bits(block, i / 128 * 32 + i % 32, i / 32 % 4 * 2, 2);
        out[i] = scale * static_cast<float>(q - 1);
    }
}

/// Q1_0: d or -d. Block of 128: d, 16 bytes, one bit for each element in order.
constexpr void decode_q1_0(std::span<std::uint8_t const, 18> block, std::span<float, 128> out) {
    auto const scale = detail::load_f16(block, 0);
    for (std::size_t i = 0; i < 128; ++i) {
        out[i] = detail::load_bits(block, 2 + i / 8, i % 8, 1) != 0 ? scale : -scale;
    }
}

/// Q2_0: d * (q - 1). Block of 64: d, 16 bytes, two bits for each element in order.
constexpr void decode_q2_0(std::span<std::uint8_t const, 18> block, std::span<float, 64> out) {
    auto const scale = detail::load_f16(block, 0);
    for (std::size_t i = 0; i < 64; ++i) {
        out[i] = scale * static_cast<float>(detail::load_bits(block, 2 + i / 4, i % 4 * 2, 2) - 1);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
