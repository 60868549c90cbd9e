// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Outputs whose values lie beside each other in a packed weight: the floats of an AVX-512 register.
inline constexpr std::int64_t panel_outputs = 16;
/// Panels begin on a cache line.
inline constexpr std::int64_t panel_alignment = 64;
/// Inputs whose codes a panel of a quantised format keeps together.
inline constexpr std::int64_t quant_block = 32;

/// `count` times `bytes` and `more`, up to a whole cache line; nothing where that leaves 63 bits.
[[nodiscard]] constexpr Optional<std::int64_t> whole_lines(std::int64_t count, std::int64_t bytes,
                                                           Optional<std::int64_t> more = std::int64_t{0}) {
    auto const product = checked_multiply(count, bytes);
    if (!product || !more) return std::nullopt;
    auto const sum = checked_add(*product, *more);
    if (!sum || !checked_add(*sum, panel_alignment)) return std::nullopt;
    return round_up(*sum, panel_alignment);
}

/// Bytes of a panel, or nothing where they leave 63 bits. A panel of a quantised format has the bits of the checkpoint; int8 and
/// int4 fill their last block of 32 inputs.
[[nodiscard]] constexpr Optional<std::int64_t> panel_bytes(WeightFormat format, std::int64_t inputs,
                                                           std::int64_t group) {
    auto const blocks = ceil_divide(inputs, quant_block);
    switch (format) {
        case WeightFormat::bf16:
            // Two inputs share 32 bits.
            return checked_multiply(ceil_divide(inputs, 2), panel_outputs * 4);
        case WeightFormat::f16:
            return whole_lines(inputs, panel_outputs * 2);
        case WeightFormat::int8:
            return whole_lines(blocks, quant_block * panel_outputs, panel_outputs * 4);
        case WeightFormat::int4:
            return whole_lines(blocks, quant_block * panel_outputs / 2,
                               checked_multiply(group < 1 ? 0 : ceil_divide(inputs, group), panel_outputs * 2));
        case WeightFormat::nf4:
            return whole_lines(ceil_divide(inputs, 64), panel_outputs * (64 / 2 + 4));
        case WeightFormat::mxfp4:
            return whole_lines(blocks, panel_outputs * (quant_block / 2 + 1));
        case WeightFormat::q4_0:
        case WeightFormat::q4_1:
        case WeightFormat::q5_0:
        case WeightFormat::q5_1:
        case WeightFormat::q8_0:
        case WeightFormat::q4_k:
        case WeightFormat::q5_k:
        case WeightFormat::q6_k:
            return whole_lines(ceil_divide(inputs, traits(format).block_elements),
                               panel_outputs * traits(format).block_bytes);
        case WeightFormat::f32: break;
    }
    return checked_multiply(inputs, panel_outputs * 4);
}

}  // namespace detail

/// The bytes that the host back end keeps of a weight once it has packed it: exactly what Host::hold_weight allocates.
/// Nothing where they leave 63 bits.
///
/// Units  outputs and inputs of the part that one rank holds; `group` as in WeightSource
[[nodiscard]] constexpr Optional<Bytes> packed_weight_bytes(WeightFormat format, std::int64_t outputs,
                                                            std::int64_t inputs, std::int64_t group = 0) {
    if (outputs < 0 || inputs < 0) return std::nullopt;
    auto const panel = detail::panel_bytes(format, inputs, group);
    if (!panel) return std::nullopt;
    auto const bytes = checked_multiply(*panel, ceil_divide(outputs, detail::panel_outputs));
    if (!bytes) return std::nullopt;
    return Bytes{*bytes};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
