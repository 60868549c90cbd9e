// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/float_bits.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

// Super-blocks of 256 elements whose scales are themselves small integers.
// Source: ggml-common.h (structs), ggml-quants.c (dequantize_row_*_K).

namespace detail {

/// Where two-bit planes keep element i: 128 elements share 32 bytes, each run of 32 in its own pair of bits.
struct PlanePlace {
    std::size_t byte;
    std::size_t shift;
};
[[nodiscard]] constexpr PlanePlace two_bit_place(std::size_t i) { return {i / 128 * 32 + i % 32, i / 32 % 4 * 2}; }
/// The same for four bits: 64 elements share 32 bytes.
[[nodiscard]] constexpr PlanePlace four_bit_place(std::size_t i) { return {i / 64 * 32 + i % 32, i / 32 % 2 * 4}; }

/// The six-bit scale and minimum of one of the eight sub-blocks of Q4_K and Q5_K, packed in 12 bytes: the first four
/// lie in the low bits of bytes 0..3 and 4..7; of the last four, bytes 8..11 hold the low and those top bits the high
/// part.
struct ScaleAndMinimum {
    int scale;
    int minimum;
};
[[nodiscard]] constexpr ScaleAndMinimum unpack_scale(std::span<std::uint8_t const> packed, std::size_t sub_block) {
    if (sub_block < 4) return {load_bits(packed, sub_block, 0, 6), load_bits(packed, sub_block + 4, 0, 6)};
    auto const scale_top = load_bits(packed, sub_block - 4, 6, 2);
    auto const minimum_top = load_bits(packed, sub_block, 6, 2);
    return {load_bits(packed, sub_block + 4, 0, 4) + 16 * scale_top,
            load_bits(packed, sub_block + 4, 4, 4) + 16 * minimum_top};
}

}  // namespace detail

/// Q2_K: d * scale * q - dmin * minimum. Block: 16 bytes of scale (low) and minimum (high), 64 bytes, d, dmin.
constexpr void decode_q2_k(std::span<std::uint8_t const, 84> block, std::span<float, 256> out) {
    auto const scale = detail::load_f16(block, 80);
    auto const minimum = detail::load_f16(block, 82);
    for (std::size_t i = 0; i < 256; ++i) {
        auto const place = detail::two_bit_place(i);
        auto const q = detail::load_bits(block, 16 + place.byte, place.shift, 2);
        auto const sub_scale = scale * static_cast<float>(detail::load_bits(block, i / 16, 0, 4));
        auto const sub_minimum = minimum * static_cast<float>(detail::load_bits(block, i / 16, 4, 4));
        out[i] = sub_scale * static_cast<float>(q) - sub_minimum;
    }
}

/// Q3_K: d * (scale - 32) * (q - 4). Block: 32 bytes of third bits, 64 bytes, 12 bytes of six-bit scales, d.
constexpr void decode_q3_k(std::span<std::uint8_t const, 110> block, std::span<float, 256> out) {
    auto const scale = detail::load_f16(block, 108);
    for (std::size_t i = 0; i < 256; ++i) {
        auto const sub = i / 16;
        auto const scale_low = detail::load_bits(block, 96 + sub % 8, sub / 8 * 4, 4);
        auto const scale_high = detail::load_bits(block, 104 + sub % 4, sub / 4 * 2, 2);
        auto const sub_scale = scale * static_cast<float>(scale_low + 16 * scale_high - 32);
        auto const place = detail::two_bit_place(i);
        auto const low = detail::load_bits(block, 32 + place.byte, place.shift, 2);
        auto const high = detail::load_bits(block, i % 32, i / 32, 1);
        out[i] = sub_scale * static_cast<float>(low + 4 * high - 4);
    }
}

/// Q4_K: d * scale * q - dmin * minimum. Block: d, dmin, 12 bytes of scales, 128 bytes.
constexpr void decode_q4_k(std::span<std::uint8_t const, 144> block, std::span<float, 256> out) {
    auto const scale = detail::load_f16(block, 0);
    auto const minimum = detail::load_f16(block, 2);
    for (std::size_t i = 0; i < 256; ++i) {
        auto const sub = detail::unpack_scale(block.subspan(4, 12), i / 32);
        auto const place = detail::four_bit_place(i);
        auto const q = static_cast<float>(detail::load_bits(block, 16 + place.byte, place.shift, 4));
        out[i] = scale * static_cast<float>(sub.scale) * q - minimum * static_cast<float>(sub.minimum);
    }
}

/// Q5_K: as Q4_K with a fifth bit. Block: d, dmin, 12 bytes of scales, 32 bytes of fifth bits, 128 bytes.
constexpr void decode_q5_k(std::span<std::uint8_t const, 176> block, std::span<float, 256> out) {
    auto const scale = detail::load_f16(block, 0);
    auto const minimum = detail::load_f16(block, 2);
    for (std::size_t i = 0; i < 256; ++i) {
        auto const sub = detail::unpack_scale(block.subspan(4, 12), i / 32);
        auto const place = detail::four_bit_place(i);
        auto const low = detail::load_bits(block, 48 + place.byte, place.shift, 4);
        auto const high = detail::load_bits(block, 16 + i % 32, i / 32, 1);
        auto const q = static_cast<float>(low + 16 * high);
        out[i] = scale * static_cast<float>(sub.scale) * q - minimum * static_cast<float>(sub.minimum);
    }
}

/// Q6_K: d * scale * (q - 32). Block: 128 bytes of low and 64 of high bits, 16 signed scales, d.
constexpr void decode_q6_k(std::span<std::uint8_t const, 210> block, std::span<float, 256> out) {
    auto const scale = detail::load_f16(block, 208);
    for (std::size_t i = 0; i < 256; ++i) {
        auto const sub_scale = scale * static_cast<float>(detail::load_i8(block, 192 + i / 16));
        auto const low = detail::load_bits(block, i / 128 * 64 + i % 64, i / 64 % 2 * 4, 4);
        auto const place = detail::two_bit_place(i);
        auto const high = detail::load_bits(block, 128 + place.byte, place.shift, 2);
        out[i] = sub_scale * static_cast<float>(low + 16 * high - 32);
    }
}

/// Q8_K: d * q; what activations are quantised to. Block: d in fp32, 256 signed bytes, 16 sums of 16.
constexpr void decode_q8_k(std::span<std::uint8_t const, 292> block, std::span<float, 256> out) {
    auto const scale = std::bit_cast<float>(detail::load_u32(block, 0));
    for (std::size_t i = 0; i < 256; ++i) out[i] = scale * static_cast<float>(detail::load_i8(block, 4 + i));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
