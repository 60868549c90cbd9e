// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/host_format.hpp>
#include <shardwise/backend/host/product/panel.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>

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
/// mxfp4 look their values up. No bits: a format without codes.
struct QuantTraits {
    int bits = 0;
    int offset = 0;
    int parts = 1;
    bool has_minimum = false;
};

[[nodiscard]] constexpr QuantTraits quant_traits(WeightFormat format) {
    auto const& row = host_format(format);
    auto const bits = is_quantised(format) ? static_cast<int>(traits(format).bits) : 0;
    return {.bits = bits, .offset = row.offset, .parts = row.parts, .has_minimum = row.has_minimum};
}

/// Bytes of a block's codes.
[[nodiscard]] constexpr std::int64_t code_block_bytes(int bits) {
    return bits * quant_block * panel_outputs / 8;
}

/// Bytes of the scales that eight blocks of a K format share.
inline constexpr std::int64_t k_scale_bytes = 16 * panel_outputs;
inline constexpr std::int64_t q6_k_scale_bytes = 18 * panel_outputs;

/// Where the scales of a quantised format's panel lie.
struct QuantLayout {
    /// Inputs that share the scales of an output, and bytes of these: those that checkpoints have. 0: the weight's groups.
    std::int64_t scale_inputs = 0;
    std::int64_t scale_bytes = 0;
    /// Inputs of a stretch: as few as have scales of whole cache lines. 0: the weight's groups say so.
    std::int64_t stretch = 0;
};
inline constexpr auto all_inputs = std::numeric_limits<std::int64_t>::max();

[[nodiscard]] constexpr QuantLayout make_quant_layout(WeightFormat format) {
    auto const& unit = traits(format);
    switch (unit.scales) {
        case ScalePlace::none: return {};
        case ScalePlace::row: return {all_inputs, unit.scale_bytes, all_inputs};
        case ScalePlace::group: return {0, unit.scale_bytes, 0};
        case ScalePlace::blocks:
        case ScalePlace::block: break;
    }
    auto const bytes = unit.scales == ScalePlace::block ? unit.scale_bytes
                                                        : unit.block_bytes - unit.block_elements * unit.bits / 8;
    auto const line = panel_alignment / std::gcd(panel_alignment, bytes * panel_outputs);
    return {unit.block_elements, bytes, unit.block_elements * line};
}

[[nodiscard]] constexpr std::array<QuantLayout, weight_format_count> make_quant_layouts() {
    std::array<QuantLayout, weight_format_count> out{};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = make_quant_layout(static_cast<WeightFormat>(i));
    return out;
}
/// Kept: products ask at every panel.
inline constexpr auto quant_layouts = make_quant_layouts();

[[nodiscard]] constexpr QuantLayout const& quant_layout(WeightFormat format) {
    return quant_layouts[static_cast<std::size_t>(format)];
}

static_assert(quant_layout(WeightFormat::q4_k).scale_bytes * panel_outputs == k_scale_bytes);
static_assert(quant_layout(WeightFormat::q6_k).scale_bytes * panel_outputs == q6_k_scale_bytes);

/// Inputs that share the scales of an output.
[[nodiscard]] constexpr std::int64_t scale_inputs(WeightFormat format, std::int64_t group) {
    auto const shared = quant_layout(format).scale_inputs;
    return shared > 0 ? shared : group;
}

/// Inputs of a stretch. All inputs of a panel where one scale is for all, or where int4's groups end within blocks.
[[nodiscard]] constexpr std::int64_t stretch_inputs(WeightFormat format, std::int64_t group) {
    auto const stretch = quant_layout(format).stretch;
    if (stretch > 0) return stretch;
    return group % quant_block == 0 && group <= all_inputs / 2 ? 2 * group : all_inputs;
}

/// Bytes from the beginning of a stretch of `inputs` inputs to its codes.
[[nodiscard]] constexpr std::int64_t stretch_scale_bytes(WeightFormat format, std::int64_t inputs, std::int64_t group) {
    auto const scales = ceil_divide(inputs, scale_inputs(format, group));
    return round_up(scales * quant_layout(format).scale_bytes * panel_outputs, panel_alignment);
}

/// Bytes of a stretch of `inputs` inputs.
[[nodiscard]] constexpr std::int64_t stretch_bytes(WeightFormat format, std::int64_t inputs, std::int64_t group) {
    return stretch_scale_bytes(format, inputs, group) +
           ceil_divide(inputs, quant_block) * code_block_bytes(quant_traits(format).bits);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
