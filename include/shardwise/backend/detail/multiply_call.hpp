// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/row_element.hpp>
#include <shardwise/core/version.hpp>
#include <shardwise/quant/weight_format_kind.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A weight, or a range of its inputs, as it lies on a device: rows of quants, a multiple of 16 bytes apart, then what belongs to 32
/// elements or more (backend/device_format.hpp). A whole weight's rows begin on a multiple of 16 bytes, a range's where its first
/// input lies.
struct DeviceWeightView {
    WeightFormat format;
    std::int64_t outputs;
    std::int64_t inputs;
    std::byte const* rows;
    std::int64_t row_bytes;
    /// Rows of bits above the low four of `block_row` times 32 elements.
    std::byte const* planes;
    /// Rows of `scale_row` scales; int8: one for each output.
    std::byte const* scales;
    std::int64_t scale_row;
    /// Rows of what multiplies the scales of 256 elements.
    std::byte const* supers;
    /// The whole weight's inputs / 32.
    std::int64_t block_row;
    /// int4: a scale is that of 2^scale_shift times 32 elements.
    std::uint32_t scale_shift;
};

/// out[r, o] = in[r] . weight[o] for `rows` rows.
struct MultiplyCall {
    DeviceWeightView weight;
    void const* in;
    std::int64_t in_row;
    void* out;
    std::int64_t out_row;
    std::int64_t rows;
    /// Whether many rows may be tiles of matrices, whose bits are others than those of few.
    bool has_tiles;
    RowElement in_element = RowElement::f32;
    /// Of floats they are floats as well.
    RowElement out_element = RowElement::f32;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
