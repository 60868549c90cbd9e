// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/device_attribute.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The nearest integer of a byte, halves to even, between -127 and 127; 0 of NaN: quant/encode_int8.hpp's. By its bits, so that no
/// compiler fuses what comes of a product with an addition.
[[nodiscard]] SHARDWISE_DEVICE inline std::int8_t nearest_byte(float value) {
    auto const bits = bits_of_float(value);
    auto const exponent = (bits >> 23U) & 0xFFU;
    auto const mantissa = (bits & 0x7FFFFFU) | 0x800000U;
    // Below one half; 128 and more.
    constexpr std::uint32_t half = 126;
    constexpr std::uint32_t large = 134;
    bool const is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    if (exponent < half || is_nan) return 0;
    auto whole = 127U;
    if (exponent < large) {
        auto const shift = 150U - exponent;
        auto const rest = mantissa & ((1U << shift) - 1U);
        auto const middle = 1U << (shift - 1U);
        whole = mantissa >> shift;
        if (rest > middle || (rest == middle && (whole & 1U) != 0)) ++whole;
        if (whole > 127U) whole = 127U;
    }
    auto const magnitude = static_cast<std::int32_t>(whole);
    return static_cast<std::int8_t>((bits >> 31U) != 0 ? -magnitude : magnitude);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
