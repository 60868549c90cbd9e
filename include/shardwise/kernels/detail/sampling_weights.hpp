// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// exp(-distance) in units of 2^-sampling_bits, by integers alone: the same on every machine, and sums of it in any order. The
/// error is below 2^-29 of the value and one unit.
///
/// Shapes  distance >= 0
inline constexpr unsigned sampling_bits = 41;

[[nodiscard]] SHARDWISE_DEVICE constexpr std::uint64_t sampling_weight(float distance) {
    constexpr double log2_e = 1.4426950408889634;
    if (!(distance < 30.0F)) return 0;
    // Products only: nothing that a compiler could fuse, and a truncation.
    auto const bits = static_cast<std::uint64_t>(static_cast<double>(distance) * log2_e * 4294967296.0);
    // 2^-(whole + part) = 2^-(whole + 1) * 2^(1 - part)
    auto const whole = bits >> 32U;
    auto const part = std::uint64_t{0x100000000U} - (bits & 0xFFFFFFFFU);
    // ln(2)^k / k! in units of 2^-32, from k = 10 down to 0 (Taylor's series: the next term is below 2^-36).
    constexpr std::uint64_t terms[] = {30,       437,       5676,       65510,      661577,    5726720,
                                       41309550, 238388332, 1031764991, 2977044472, 4294967296};
    std::uint64_t value = 0;
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < 11; ++i) value = terms[i] + ((value * part) >> 32U);
    return (value << (sampling_bits - 32U)) >> (whole + 1U);
}

/// The upper 64 bits of a product.
[[nodiscard]] SHARDWISE_DEVICE constexpr std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
    auto const a_low = a & 0xFFFFFFFFU;
    auto const b_low = b & 0xFFFFFFFFU;
    auto const middle = (a >> 32U) * b_low + ((a_low * b_low) >> 32U);
    auto const other = a_low * (b >> 32U) + (middle & 0xFFFFFFFFU);
    return (a >> 32U) * (b >> 32U) + (middle >> 32U) + (other >> 32U);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
