// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/encode_legacy.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The nearest float8_e4m3fn, ties to even; what rounds beyond 448 becomes NaN, as in torch.
[[nodiscard]] constexpr std::uint8_t to_e4m3(float value) {
    auto const bits = std::bit_cast<std::uint32_t>(value);
    auto const sign = static_cast<std::uint32_t>((bits >> 24U) & 0x80U);
    auto const magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x43E80000U) return static_cast<std::uint8_t>(sign | 0x7FU);  // 464: half way to 480
    if (magnitude < 0x3C800000U) {  // 2^-6: below it the distance of neighbours stays 2^-9
        auto const steps = std::bit_cast<float>(magnitude) * 512.0F;
        return static_cast<std::uint8_t>(sign | static_cast<std::uint32_t>(detail::round_even_within(steps, 0, 8)));
    }
    auto const rounded = magnitude + 0x7FFFFU + ((magnitude >> 20U) & 1U);
    return static_cast<std::uint8_t>(sign | ((rounded >> 20U) - 960U));
}

/// Quantizes a matrix to E4M3 with a scale for each block of it (decode_fp8_blocks): the greatest magnitude of a block over 448,
/// and x / scale. A block of zeros has the scale 0.
///
/// Shapes  values and out [rows, columns], scales [ceil(rows / block_rows), ceil(columns / block_columns)]
/// Errors  shape_mismatch
/// Source  DeepSeek-V3 inference/kernel.py (act_quant)
[[nodiscard]] constexpr Result<> encode_fp8_blocks(std::span<float const> values, std::size_t columns,
                                                   std::size_t block_rows, std::size_t block_columns,
                                                   std::span<std::uint8_t> out, std::span<float> scales) {
    bool const has_extents = columns > 0 && block_rows > 0 && block_columns > 0;
    auto const rows = has_extents ? values.size() / columns : 0;
    auto const across = has_extents ? ceil_divide(columns, block_columns) : 0;
    auto const down = has_extents ? ceil_divide(rows, block_rows) : 0;
    if (!has_extents || rows * columns != values.size() || out.size() != values.size() ||
        scales.size() != down * across) {
        return Error{ErrorCode::shape_mismatch}.because("elements and scales do not fit the extents of the matrix");
    }
    for (auto& scale : scales) scale = 0.0F;
    // Magnitudes first, in the place of the scales.
    for (std::size_t i = 0; i < values.size(); ++i) {
        auto& scale = scales[i / columns / block_rows * across + i % columns / block_columns];
        auto const size = values[i] < 0.0F ? -values[i] : values[i];
        if (size != size || size > scale) scale = size;  // once NaN, it stays: no comparison is true
    }
    for (auto& scale : scales) scale /= 448.0F;
    for (std::size_t i = 0; i < values.size(); ++i) {
        auto const scale = scales[i / columns / block_rows * across + i % columns / block_columns];
        auto const quotient = scale == 0.0F ? 0.0F : values[i] / scale;
        out[i] = to_e4m3(quotient > 448.0F ? 448.0F : quotient < -448.0F ? -448.0F : quotient);
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
