// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/op/packed_weight.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

// A panel of a quantised format holds the bits of the checkpoint in another order, in which a product reads them from the first
// byte to the last: stretch by stretch of blocks of 32 inputs, the scales of its blocks up to a cache line, then their codes.
//
// Codes   A block's codes are 64-byte vectors whose 32-bit lane i belongs to output i. Byte b of a lane and step s (0..7) name
//         the input 4 s + b, so that a step is what one four-way dot product takes.
//         8 bits: vector s has the codes of step s, as unsigned bytes (int8 and Q8_0: q + 128).
//         4 bits: vector t has step 2 t in the low and step 2 t + 1 in the high halves of its bytes.
//         5 bits: the same, then a vector with the fifth bits: bit s of a byte belongs to step s.
//         6 bits: the same, then two vectors with the top two bits: bits 2 f and 2 f + 1 of vector u belong to step 4 u + f.
// Scales  [16] in the order of the outputs
//         int8: one float for all blocks. int4: a half for each group. nf4: a float for each 64 inputs.
//         mxfp4: an exponent byte for each block. Q4_0, Q5_0, Q8_0: a half. Q4_1, Q5_1: two halves, scale and minimum.
//         Q4_K, Q5_K: for 8 blocks, the half d, the half -dmin, 8 bytes: the scale and the low two bits of the minimum above it,
//         4 bytes: the high four bits of the minima of blocks 2 j (low half) and 2 j + 1.
//         Q6_K: for 8 blocks, the half d, 16 signed bytes.

/// How the codes of a format become numbers: scale * (code - offset) + minimum, with `parts` scales per block of 32; nf4 and
/// mxfp4 look their values up.
struct QuantTraits {
    int bits = 0;
    int offset = 0;
    int parts = 1;
    bool has_minimum = false;
};

[[nodiscard]] constexpr QuantTraits quant_traits(WeightFormat format) {
    switch (format) {
        case WeightFormat::int8:
        case WeightFormat::q8_0:
            return {.bits = 8, .offset = 128};
        case WeightFormat::int4:
        case WeightFormat::q4_0:
            return {.bits = 4, .offset = 8};
        case WeightFormat::q4_1:
        case WeightFormat::q4_k:
            return {.bits = 4, .has_minimum = true};
        case WeightFormat::q5_0:
            return {.bits = 5, .offset = 16};
        case WeightFormat::q5_1:
        case WeightFormat::q5_k:
            return {.bits = 5, .has_minimum = true};
        case WeightFormat::q6_k:
            return {.bits = 6, .offset = 32, .parts = 2};
        case WeightFormat::mxfp4:
            // Twice an E2M1 value is an integer of -12 to 12; the offset makes its lookup unsigned.
            return {.bits = 4, .offset = 12};
        case WeightFormat::nf4:
            return {.bits = 4};
        case WeightFormat::f32: case WeightFormat::bf16: case WeightFormat::f16: break;
    }
    return {};
}

/// Bytes of a block's codes.
[[nodiscard]] constexpr std::int64_t code_block_bytes(int bits) {
    return bits * quant_block * panel_outputs / 8;
}

/// Bytes of the scales that eight blocks of a K format share.
inline constexpr std::int64_t k_scale_bytes = 16 * panel_outputs;
inline constexpr std::int64_t q6_k_scale_bytes = 18 * panel_outputs;

/// Inputs of a stretch: as few as have scales of whole cache lines. All inputs of a panel where one scale is for all, or where
/// int4's groups end within blocks.
[[nodiscard]] constexpr std::int64_t stretch_inputs(WeightFormat format, std::int64_t group) {
    constexpr auto all = std::numeric_limits<std::int64_t>::max();
    switch (format) {
        case WeightFormat::int8:
            return all;
        case WeightFormat::int4:
            return group % quant_block == 0 && group <= all / 2 ? 2 * group : all;
        case WeightFormat::q4_1:
        case WeightFormat::q5_1:
            return quant_block;
        case WeightFormat::mxfp4:
            return 4 * quant_block;
        case WeightFormat::q4_k:
        case WeightFormat::q5_k:
            return 8 * quant_block;
        case WeightFormat::q6_k:
            return 16 * quant_block;
        case WeightFormat::f32: case WeightFormat::bf16: case WeightFormat::f16: case WeightFormat::nf4:
        case WeightFormat::q4_0: case WeightFormat::q5_0: case WeightFormat::q8_0: break;
    }
    return 2 * quant_block;
}

/// Bytes from the beginning of a stretch of `inputs` inputs to its codes.
[[nodiscard]] constexpr std::int64_t stretch_scale_bytes(WeightFormat format, std::int64_t inputs, std::int64_t group) {
    auto const blocks = ceil_divide(inputs, quant_block);
    auto const lines = [](std::int64_t bytes) { return round_up(bytes, panel_alignment); };
    switch (format) {
        case WeightFormat::int8:
            return 4 * panel_outputs;
        case WeightFormat::int4:
            return lines(ceil_divide(inputs, group) * 2 * panel_outputs);
        case WeightFormat::nf4:
            return 4 * panel_outputs;
        case WeightFormat::mxfp4:
            return lines(blocks * panel_outputs);
        case WeightFormat::q4_1:
        case WeightFormat::q5_1:
            return lines(blocks * 4 * panel_outputs);
        case WeightFormat::q4_k:
        case WeightFormat::q5_k:
            return ceil_divide(blocks, 8) * k_scale_bytes;
        case WeightFormat::q6_k:
            return lines(ceil_divide(blocks, 8) * q6_k_scale_bytes);
        case WeightFormat::f32: case WeightFormat::bf16: case WeightFormat::f16: case WeightFormat::q4_0:
        case WeightFormat::q5_0: case WeightFormat::q8_0: break;
    }
    return lines(blocks * 2 * panel_outputs);
}

/// Bytes of a stretch of `inputs` inputs.
[[nodiscard]] constexpr std::int64_t stretch_bytes(WeightFormat format, std::int64_t inputs, std::int64_t group) {
    return stretch_scale_bytes(format, inputs, group) +
           ceil_divide(inputs, quant_block) * code_block_bytes(quant_traits(format).bits);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
