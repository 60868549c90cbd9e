// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/decode_microscaling.hpp>
#include <shardwise/quant/encode_legacy.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The exponent byte of 32 values, floor(log2(magnitude)) - 2 + 127; the logarithm is rounded to float, as ggml's.
[[nodiscard]] inline std::uint8_t mxfp4_exponent(std::span<float const, 32> values) {
    auto const found = extremes_of(values);
    auto const magnitude = found.magnitude();
    if (found.has_nan || magnitude > std::numeric_limits<float>::max()) return 255;
    if (magnitude == 0.0F) return 0;
    auto const logarithm = static_cast<float>(std::log2(static_cast<double>(magnitude)));
    return static_cast<std::uint8_t>(truncate_within(std::floor(logarithm) + 125.0F, 0, 254));
}

/// The code whose value times the scale is nearest, the lower code of two at the same distance; never -0.
[[nodiscard]] constexpr int nearest_e2m1(float value, float half_scale) {
    int best = 0;
    auto least = std::numeric_limits<float>::infinity();
    for (int code = 0; code < 16; ++code) {
        auto const distance = half_scale * static_cast<float>(doubled_e2m1(code)) - value;
        auto const size = distance < 0.0F ? -distance : distance;
        if (size < least) {
            least = size;
            best = code;
        }
    }
    return best;
}

}  // namespace detail

/// A block of GGUF's MXFP4 (decode_mxfp4), bit for bit as ggml makes it. A NaN or an infinity makes the exponent 255, which is
/// NaN in the format; GGUF's decoders read it as 2^128.
///
/// Source  ggml-quants.c (quantize_row_mxfp4_ref)
inline void encode_mxfp4(std::span<float const, 32> values, std::span<std::uint8_t, 17> block) {
    block[0] = detail::mxfp4_exponent(values);
    int integers[32];
    for (std::size_t i = 0; i < 32; ++i) integers[i] = detail::nearest_e2m1(values[i], detail::half_e8m0(block[0]));
    detail::store_nibbles(block, 1, integers);
}

/// The same codes as checkpoints order them (decode_mxfp4_checkpoint): element 2i in the low and 2i + 1 in the high half of
/// byte i. Returns the exponent byte.
inline std::uint8_t encode_mxfp4_checkpoint(std::span<float const, 32> values, std::span<std::uint8_t, 16> block) {
    auto const exponent = detail::mxfp4_exponent(values);
    auto const half_scale = detail::half_e8m0(exponent);
    for (std::size_t i = 0; i < 16; ++i) {
        auto const low = detail::nearest_e2m1(values[2 * i], half_scale);
        auto const high = detail::nearest_e2m1(values[2 * i + 1], half_scale);
        block[i] = static_cast<std::uint8_t>(low | (high << 4));
    }
    return exponent;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
