#pragma once

#include <shardwise/op/packed_weight.hpp>
#include <shardwise/op/weight_format.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

namespace detail {

// A panel of a quantised format holds the bits of the checkpoint in another order: the codes of all blocks of 32 inputs, then
// the scales of all blocks, then nothing up to a cache line.
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
        default:
            return {};
    }
}

/// Bytes of a block's codes.
[[nodiscard]] constexpr std::int64_t code_block_bytes(int bits) {
    return bits * quant_block * panel_outputs / 8;
}

/// Bytes of the codes of a panel, behind which its scales lie.
[[nodiscard]] constexpr std::int64_t panel_code_bytes(WeightFormat format, std::int64_t inputs) {
    return ceil_divide(inputs, quant_block) * code_block_bytes(quant_traits(format).bits);
}

/// Bytes of a block of 32 inputs with its share of the scales, without those of int8 and int4.
[[nodiscard]] constexpr std::int64_t stored_block_bytes(WeightFormat format) {
    auto const unit = traits(format);
    switch (format) {
        case WeightFormat::nf4:
            return panel_outputs * (quant_block / 2 + 2);
        case WeightFormat::mxfp4:
            return panel_outputs * (quant_block / 2 + 1);
        default:
            return unit.block_bytes == 0 ? code_block_bytes(quant_traits(format).bits)
                                         : panel_outputs * unit.block_bytes * quant_block / unit.block_elements;
    }
}

/// Bytes of the scales that eight blocks of a K format share.
inline constexpr std::int64_t k_scale_bytes = 16 * panel_outputs;
inline constexpr std::int64_t q6_k_scale_bytes = 18 * panel_outputs;

}  // namespace detail

}  // namespace shardwise::inline v0_2_0
