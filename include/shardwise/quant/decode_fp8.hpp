// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/float_bits.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Decodes an E4M3 matrix with a scale for each block of it (`weight_scale_inv`; one block: a scale for the matrix).
///
/// Shapes  weight and out [rows, columns], scales [ceil(rows / block_rows), ceil(columns / block_columns)]
/// Errors  shape_mismatch
/// Source  DeepSeek-V3 inference/kernel.py (weight_dequant)
[[nodiscard]] constexpr Result<> decode_fp8_blocks(std::span<std::uint8_t const> weight, std::span<float const> scales,
                                                   std::size_t columns, std::size_t block_rows,
                                                   std::size_t block_columns, std::span<float> out) {
    bool const has_extents = columns > 0 && block_rows > 0 && block_columns > 0;
    auto const rows = has_extents ? out.size() / columns : 0;
    auto const across = has_extents ? ceil_divide(columns, block_columns) : 0;
    auto const down = has_extents ? ceil_divide(rows, block_rows) : 0;
    if (!has_extents || rows * columns != out.size() || weight.size() != out.size() || scales.size() != down * across) {
        return Error{ErrorCode::shape_mismatch}.because("elements and scales do not fit the extents of the matrix");
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
        auto const block = i / columns / block_rows * across + i % columns / block_columns;
        out[i] = from_e4m3(weight[i]) * scales[block];
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
