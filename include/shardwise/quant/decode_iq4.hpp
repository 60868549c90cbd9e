// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/float_bits.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The sixteen values that IQ4_NL and IQ4_XS choose from, denser near zero.
///
/// Source  ggml-common.h (kvalues_iq4nl)
inline constexpr std::array<std::int8_t, 16> iq4_values{-127, -104, -83, -65, -49, -35, -22, -10,
                                                        1,    13,   25,  38,  53,  69,  89,  113};

/// IQ4_NL: d * value[q]. Block of 32: d, 16 bytes laid out as in Q4_0.
constexpr void decode_iq4_nl(std::span<std::uint8_t const, 18> block, std::span<float, 32> out) {
    auto const scale = detail::load_f16(block, 0);
    for (std::size_t i = 0; i < 32; ++i) {
        auto const index = static_cast<std::size_t>(detail::load_bits(block, 2 + i % 16, i / 16 * 4, 4));
        out[i] = scale * static_cast<float>(iq4_values[index]);
    }
}

/// IQ4_XS: d * (scale - 32) * value[q]. Block of 256: d, two bytes with the high and four with the low bits of eight
/// scales, 128 bytes, each 16 of which hold 32 elements as in Q4_0.
constexpr void decode_iq4_xs(std::span<std::uint8_t const, 136> block, std::span<float, 256> out) {
    auto const scale = detail::load_f16(block, 0);
    auto const high_bits = static_cast<unsigned>(detail::load_u16(block, 2));
    for (std::size_t i = 0; i < 256; ++i) {
        auto const sub = i / 32;
        auto const high = static_cast<int>((high_bits >> (2 * sub)) & 3U);
        auto const sub_scale = detail::load_bits(block, 4 + sub / 2, sub % 2 * 4, 4) + 16 * high - 32;
        auto const index =
            static_cast<std::size_t>(detail::load_bits(block, 8 + sub * 16 + i % 16, i / 16 % 2 * 4, 4));
        out[i] = scale * static_cast<float>(sub_scale) * static_cast<float>(iq4_values[index]);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
