// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/encode_legacy.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Quantizes a row to `int8` and returns its scale, a 127th of the greatest magnitude: q = round(x * (127 / magnitude)), halves
/// to even. The integers are those of bitsandbytes' LLM.int8; its SCB is the magnitude.
///
/// Shapes  values [n], out [n]
/// Source  Dettmers et al., LLM.int8(), 2022; bitsandbytes _ops.py (int8_vectorwise_quant)
constexpr float encode_int8_row(std::span<float const> values, std::span<std::int8_t> out) {
    auto const magnitude = detail::extremes_of(values).magnitude();
    // 127 over a magnitude below 2^-121 is no float: both are multiplied by a power of two, which rounds nothing.
    auto const lift = magnitude < 0x1p-100F ? 0x1p100F : 1.0F;
    auto const inverse = magnitude == 0.0F ? 0.0F : 127.0F / (magnitude * lift);
    for (std::size_t i = 0; i < values.size() && i < out.size(); ++i) {
        auto const quotient = detail::rounded_product(values[i] * lift, inverse);
        out[i] = static_cast<std::int8_t>(detail::round_even_within(quotient, -127, 127));
    }
    return magnitude / 127.0F;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
