// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/float_bits.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The sixteen values of NF4: quantiles of a normal distribution, scaled to [-1, 1]. A list, for device code reaches no array of the
/// host's.
///
/// Source  QLoRA (arXiv 2305.14314), appendix E; bitsandbytes functional.py (get_4bit_type)
#define SHARDWISE_NF4_VALUES                                                                                        \
    -1.0F, -0.6961928009986877F, -0.5250730514526367F, -0.39491748809814453F, -0.28444138169288635F,                \
        -0.18477343022823334F, -0.09105003625154495F, 0.0F, 0.07958029955625534F, 0.16093020141124725F,             \
        0.24611230194568634F, 0.33791524171829224F, 0.44070982933044434F, 0.5626170039176941F, 0.7229568362236023F, \
        1.0F
inline constexpr std::array<float, 16> nf4_values{SHARDWISE_NF4_VALUES};

/// The sixteen values of bitsandbytes' FP4: a sign, two exponent bits, one mantissa bit, scaled to [-1, 1].
///
/// Source  bitsandbytes functional.py (get_4bit_type); its quant_map has +0 for code 8, which its kernels decode as -0
inline constexpr std::array<float, 16> bnb_fp4_values{
    0.0F,  0.0625F / 12.0F,  8.0F / 12.0F,  1.0F,  4.0F / 12.0F,  0.5F,  2.0F / 12.0F,  0.25F,
    -0.0F, -0.0625F / 12.0F, -8.0F / 12.0F, -1.0F, -4.0F / 12.0F, -0.5F, -2.0F / 12.0F, -0.25F,
};

/// Decodes a weight that bitsandbytes packed in four bits: code[q] times the absmax of its 64 consecutive elements. The
/// first element of a byte lies in its high half.
///
/// Shapes  packed [(n + 1) / 2], absmax [ceil(n / block)], out [n]
/// Errors  shape_mismatch
[[nodiscard]] constexpr Result<> decode_bnb_4bit(std::span<std::uint8_t const> packed, std::span<float const> absmax,
                                                 std::span<float const, 16> code, std::span<float> out,
                                                 std::size_t block = 64) {
    auto const blocks = block == 0 ? 0 : ceil_divide(out.size(), block);
    if (block == 0 || packed.size() != (out.size() + 1) / 2 || absmax.size() != blocks) {
        return Error{ErrorCode::shape_mismatch}.because("packed elements or absmax do not fit the number of elements");
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
        auto const nibble = detail::load_bits(packed, i / 2, i % 2 == 0 ? 4 : 0, 4);
        out[i] = code[static_cast<std::size_t>(nibble)] * absmax[i / block];
    }
    return {};
}

/// Decodes the eight-bit absmax of double quantisation: nested_quant_map[q] * nested_absmax[its 256] + nested_offset.
///
/// Shapes  quantised [n], nested_absmax [ceil(n / 256)], absmax [n]
/// Errors  shape_mismatch
[[nodiscard]] constexpr Result<> decode_bnb_absmax(std::span<std::uint8_t const> quantised,
                                                   std::span<float const> nested_absmax,
                                                   std::span<float const, 256> nested_code, float nested_offset,
                                                   std::span<float> absmax) {
    if (quantised.size() != absmax.size() || nested_absmax.size() != (absmax.size() + 255) / 256) {
        return Error{ErrorCode::shape_mismatch}.because("nested_absmax does not fit the number of blocks");
    }
    for (std::size_t i = 0; i < absmax.size(); ++i) {
        // Two roundings, as in bitsandbytes; the exact product in double keeps compilers from fusing it with the sum.
        auto const code = static_cast<double>(nested_code[quantised[i]]);
        auto const product = code * static_cast<double>(nested_absmax[i / 256]);
        absmax[i] = static_cast<float>(product) + nested_offset;
    }
    return {};
}

/// Decodes one row of an LLM.int8 weight: q * (SCB / 127), as a product with the rounded reciprocal.
///
/// Source  bitsandbytes _ops.py (int8_vectorwise_dequant)
constexpr void decode_bnb_int8(std::span<std::int8_t const> row, float row_absmax, std::span<float> out) {
    constexpr float reciprocal = 7.874015718698502e-3F;
    for (std::size_t i = 0; i < row.size() && i < out.size(); ++i) {
        out[i] = static_cast<float>(row[i]) * row_absmax * reciprocal;
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
