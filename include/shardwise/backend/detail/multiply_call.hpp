// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>
#include <shardwise/quant/weight_format_kind.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A weight, or a range of its inputs, as it lies on a device: rows of quants, a multiple of 16 bytes apart, then the scales. A
/// whole weight's rows begin on a multiple of 16 bytes, a range's where its first input lies.
struct DeviceWeightView {
    WeightFormat format;
    std::int64_t outputs;
    std::int64_t inputs;
    std::byte const* rows;
    std::int64_t row_bytes;
    /// int8: float [outputs]; q4_0, q8_0: Float16 [outputs, inputs / 32], rows `scale_row` apart.
    std::byte const* scales;
    std::int64_t scale_row;
};

/// out[r, o] = in[r] . weight[o] for `rows` rows.
struct MultiplyCall {
    DeviceWeightView weight;
    float const* in;
    std::int64_t in_row;
    float* out;
    std::int64_t out_row;
    std::int64_t rows;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
