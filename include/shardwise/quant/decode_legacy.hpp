// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/float_bits.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

// Blocks of 32 elements, a half `d` first. Four-bit elements lie as i in the low and i + 16 in the high half of byte i.
// Source: ggml-common.h (structs), ggml-quants.c (dequantize_row_*).

/// Q4_0: d * (q - 8). Block: d, 16 bytes.
constexpr void decode_q4_0(std::span<std::uint8_t const, 18> block, std::span<float, 32> out) {
    auto const scale = detail::load_f16(block, 0);
    for (std::size_t i = 0; i < 32; ++i) {
        out[i] = scale * static_cast<float>(detail::load_bits(block, 2 + i % 16, i / 16 * 4, 4) - 8);
    }
}

/// Q4_1: d * q + m. Block: d, m, 16 bytes.
constexpr void decode_q4_1(std::span<std::uint8_t const, 20> block, std::span<float, 32> out) {
    auto const scale = detail::load_f16(block, 0);
    auto const offset = detail::load_f16(block, 2);
    for (std::size_t i = 0; i < 32; ++i) {
        out[i] = scale * static_cast<float>(detail::load_bits(block, 4 + i % 16, i / 16 * 4, 4)) + offset;
    }
}

/// Q5_0: d * (q - 16). Block: d, 4 bytes with the fifth bits, 16 bytes.
constexpr void decode_q5_0(std::span<std::uint8_t const, 22> block, std::span<float, 32> out) {
    auto const scale = detail::load_f16(block, 0);
    for (std::size_t i = 0; i < 32; ++i) {
        auto const low = detail::load_bits(block, 6 + i % 16, i / 16 * 4, 4);
        auto const high = detail::load_bits(block, 2 + i / 8, i % 8, 1);
        out[i] = scale * static_cast<float>(low + 16 * high - 16);
    }
}

/// Q5_1: d * q + m. Block: d, m, 4 bytes with the fifth bits, 16 bytes.
constexpr void decode_q5_1(std::span<std::uint8_t const, 24> block, std::span<float, 32> out) {
    auto const scale = detail::load_f16(block, 0);
    auto const offset = detail::load_f16(block, 2);
    for (std::size_t i = 0; i < 32; ++i) {
        auto const low = detail::load_bits(block, 8 + i % 16, i / 16 * 4, 4);
        auto const high = detail::load_bits(block, 4 + i / 8, i % 8, 1);
        out[i] = scale * static_cast<float>(low + 16 * high) + offset;
    }
}

/// Q8_0: d * q. Block: d, 32 signed bytes.
constexpr void decode_q8_0(std::span<std::uint8_t const, 34> block, std::span<float, 32> out) {
    auto const scale = detail::load_f16(block, 0);
    for (std::size_t i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(detail::load_i8(block, 2 + i));
}

/// Q8_1: d * q; what activations are quantised to. Block: d, d times the sum of all q, 32 signed bytes.
constexpr void decode_q8_1(std::span<std::uint8_t const, 36> block, std::span<float, 32> out) {
    auto const scale = detail::load_f16(block, 0);
    for (std::size_t i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(detail::load_i8(block, 4 + i));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
