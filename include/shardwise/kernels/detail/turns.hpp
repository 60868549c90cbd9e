// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/device_attribute.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Cosine and sine of an angle.
struct Turn {
    float cosine;
    float sine;
};

/// Cosine and sine of `turns` * 2^-64 full turns, each within 3 * 2^-24.
///
/// Source  Cephes sinf.c and cosf.c (the polynomials on an eighth of a turn)
[[nodiscard]] SHARDWISE_DEVICE inline Turn turn_of(std::uint64_t turns) {
    auto const quarter = static_cast<std::uint32_t>((turns + (std::uint64_t{1} << 61U)) >> 62U);
    auto const rest = static_cast<std::int64_t>(turns - (static_cast<std::uint64_t>(quarter) << 62U));
    // 2 pi / 2^64
    auto const x = static_cast<float>(rest) * 0x1.921fb6p-62F;
    auto const z = x * x;
    auto const sine = x + x * z * ((-1.9515295891e-4F * z + 8.3321608736e-3F) * z - 1.6666654611e-1F);
    auto const cosine =
        1.0F - 0.5F * z + z * z * ((2.443315711809948e-5F * z - 1.388731625493765e-3F) * z + 4.166664568298827e-2F);
    auto const first = (quarter & 1U) != 0 ? sine : cosine;
    auto const second = (quarter & 1U) != 0 ? cosine : sine;
    return {quarter == 1 || quarter == 2 ? -first : first, quarter >= 2 ? -second : second};
}

/// Cosine and sine of position * frequency radians for any position and frequencies below 2^64, each within 3 * 2^-24 of those
/// of the exact product; NaN beyond. Without doubles: their products and their sine cost a device 64 times a float's, and memory.
///
/// Source  Payne and Hanek, Radian reduction for trigonometric functions, 1983, in whole numbers: the frequency in turns with 64
///         digits behind the point, of which a position of 31 digits leaves 33
[[nodiscard]] SHARDWISE_DEVICE inline Turn turn_of(std::int32_t position, float frequency) {
    auto const bits = bits_of_float(frequency);
    auto const exponent = static_cast<int>((bits >> 23U) & 0xFFU);
    // frequency = mantissa * 2^(64 - shift)
    auto const mantissa = (bits & 0x7FFFFFU) | (exponent == 0 ? 0U : 0x800000U);
    auto const shift = 64 + 150 - (exponent == 0 ? 1 : exponent);
    if (shift < 24) return {float_of_bits(0x7FC00000U), float_of_bits(0x7FC00000U)};
    // 1 / (2 pi), 128 digits after the point, from the lowest word up.
    constexpr std::uint32_t digits[4] = {0x7D4D3770U, 0x7F09D5F4U, 0x9391054AU, 0x28BE60DBU};
    std::uint32_t words[5];
    std::uint64_t carry = 0;
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < 4; ++i) {
        carry += static_cast<std::uint64_t>(mantissa) * digits[i];
        words[i] = static_cast<std::uint32_t>(carry);
        carry >>= 32U;
    }
    words[4] = static_cast<std::uint32_t>(carry);
    // By whole words first: an array that is indexed at run time would lie in memory.
    SHARDWISE_DEVICE_UNROLL
    for (int word = 1; word <= 5; ++word) {
        if (shift >= 32 * word) {
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < 4; ++i) words[i] = words[i + 1];
            words[4] = 0;
        }
    }
    auto const rest = static_cast<unsigned>(shift) % 32U;
    auto const pair = [&](int i) {
        return (static_cast<std::uint64_t>(words[i + 1]) << 32U | words[i]) >> rest & 0xFFFFFFFFU;
    };
    auto const step = pair(1) << 32U | pair(0);
    auto const turns = step * static_cast<std::uint64_t>(static_cast<std::int64_t>(position));
    return turn_of((bits >> 31U) != 0 ? std::uint64_t{0} - turns : turns);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
