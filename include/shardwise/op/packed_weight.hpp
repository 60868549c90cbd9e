#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/op/weight_format.hpp>

#include <cstdint>

namespace shardwise::inline v0_2_0 {

namespace detail {

/// Outputs whose values lie beside each other in a packed weight: the floats of an AVX-512 register.
inline constexpr std::int64_t panel_outputs = 16;
/// Panels begin on a cache line.
inline constexpr std::int64_t panel_alignment = 64;

/// Bytes of a panel, or nothing where they leave 63 bits.
[[nodiscard]] constexpr Optional<std::int64_t> panel_bytes(WeightFormat format, std::int64_t inputs,
                                                           [[maybe_unused]] std::int64_t group) {
    switch (format) {
        case WeightFormat::bf16:
            // Two inputs share 32 bits.
            return checked_multiply(ceil_divide(inputs, 2), panel_outputs * 4);
        case WeightFormat::f16: {
            auto const bytes = checked_multiply(inputs, panel_outputs * 2);
            if (!bytes) return bytes;
            return round_up(*bytes, panel_alignment);
        }
        default:
            return checked_multiply(inputs, panel_outputs * 4);
    }
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

}  // namespace shardwise::inline v0_2_0
