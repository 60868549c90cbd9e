// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/host_format.hpp>
#include <shardwise/backend/host/product/panel.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

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
    auto const& unit = traits(format);
    switch (unit.scales) {
        case ScalePlace::none: {
            auto const together = host_format(format).together;
            return whole_lines(ceil_divide(inputs, together), panel_outputs * unit.block_bytes * together);
        }
        case ScalePlace::blocks:
            return whole_lines(ceil_divide(inputs, unit.block_elements), panel_outputs * unit.block_bytes);
        case ScalePlace::block:
            return whole_lines(ceil_divide(inputs, unit.block_elements),
                               panel_outputs * (unit.block_elements * unit.bits / 8 + unit.scale_bytes));
        case ScalePlace::row:
        case ScalePlace::group: break;
    }
    auto const scales = unit.scales == ScalePlace::row ? 1 : group < 1 ? 0 : ceil_divide(inputs, group);
    return whole_lines(ceil_divide(inputs, quant_block), panel_outputs * quant_block * unit.bits / 8,
                       checked_multiply(scales, panel_outputs * unit.scale_bytes));
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
