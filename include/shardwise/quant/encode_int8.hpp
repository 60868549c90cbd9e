#pragma once

#include <shardwise/quant/encode_legacy.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline v0_2_0 {

/// Quantizes a row to `int8` and returns its scale, a 127th of the greatest magnitude: q = round(x * (127 / magnitude)), halves
/// to even. The integers are those of bitsandbytes' LLM.int8; its SCB is the magnitude.
///
/// Shapes  values [n], out [n]
/// Source  Dettmers et al., LLM.int8(), 2022; bitsandbytes _ops.py (int8_vectorwise_quant)
constexpr float encode_int8_row(std::span<float const> values, std::span<std::int8_t> out) {
    auto const magnitude = detail::extremes_of(values).magnitude();
    auto const inverse = magnitude == 0.0F ? 0.0F : 127.0F / magnitude;
    for (std::size_t i = 0; i < values.size() && i < out.size(); ++i) {
        out[i] =
            static_cast<std::int8_t>(detail::round_even_within(detail::rounded_product(values[i], inverse), -127, 127));
    }
    return magnitude / 127.0F;
}

}  // namespace shardwise::inline v0_2_0
