// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/float_bits.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Twice the value of a four-bit float as an integer; GGUF's types have no negative zero.
[[nodiscard]] constexpr int doubled_e2m1(int nibble) {
    constexpr std::array<int, 8> doubled{0, 1, 2, 3, 4, 6, 8, 12};
    auto const magnitude = doubled[static_cast<std::size_t>(nibble) & 7U];
    return nibble >= 8 ? -magnitude : magnitude;
}

/// Half of 2^(bits - 127), without NaN.
[[nodiscard]] constexpr float half_e8m0(std::uint8_t bits) {
    if (bits < 2) return std::bit_cast<float>(0x00200000U << bits);
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits - 1U) << 23U);
}

/// Half of an unsigned E4M3 scale; 0x7F counts as zero.
[[nodiscard]] constexpr float half_unsigned_e4m3(std::uint8_t bits) {
    if (bits == 0 || bits == 0x7F) return 0.0F;
    auto const exponent = (static_cast<std::uint32_t>(bits) >> 3U) & 0xFU;
    auto const mantissa = static_cast<std::uint32_t>(bits & 7U);
    if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10F;
    return std::bit_cast<float>(((exponent + 119U) << 23U) | (mantissa << 20U));
}

}  // namespace detail

/// MXFP4 of GGUF: 2^(e - 127) * q. Block of 32: e, 16 bytes laid out as in Q4_0.
///
/// Source  ggml-quants.c (dequantize_row_mxfp4)
constexpr void decode_mxfp4(std::span<std::uint8_t const, 17> block, std::span<float, 32> out) {
    auto const scale = detail::half_e8m0(block[0]);
    for (std::size_t i = 0; i < 32; ++i) {
        out[i] = scale * static_cast<float>(detail::doubled_e2m1(detail::load_bits(block, 1 + i % 16, i / 16 * 4, 4)));
    }
}

/// NVFP4 of GGUF: scale * q. Block of 64: four unsigned E4M3 scales, then for each 16 elements 8 bytes, element i in
/// the low and i + 8 in the high half of byte i.
///
/// Source  ggml-quants.c (dequantize_row_nvfp4)
constexpr void decode_nvfp4(std::span<std::uint8_t const, 36> block, std::span<float, 64> out) {
    for (std::size_t i = 0; i < 64; ++i) {
        auto const sub = i / 16;
        auto const scale = detail::half_unsigned_e4m3(block[sub]);
        auto const nibble = detail::load_bits(block, 4 + sub * 8 + i % 8, i / 8 % 2 * 4, 4);
        out[i] = scale * static_cast<float>(detail::doubled_e2m1(nibble));
    }
}

/// MXFP4 of gpt-oss checkpoints: 32 elements from a row of `_blocks` and their byte of `_scales`; element 2i lies in
/// the low and 2i + 1 in the high half of byte i.
///
/// Source  transformers 4.57 integrations/mxfp4.py (convert_moe_packed_tensors)
constexpr void decode_mxfp4_checkpoint(std::span<std::uint8_t const, 16> block, std::uint8_t scale,
                                       std::span<float, 32> out) {
    auto const factor = from_e8m0(scale);
    for (std::size_t i = 0; i < 32; ++i) {
        out[i] = factor * from_e2m1(static_cast<std::uint8_t>(detail::load_bits(block, i / 2, i % 2 * 4, 4)));
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
