// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/multiply_call.hpp>
#include <shardwise/backend/detail/row_element.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// An expert's weight and bias as they lie on a device.
struct DeviceExpert {
    DeviceWeightView weight;
    /// Or null.
    float const* bias;
};

/// out[r] = in[token of r] . weight of the expert that r is among the rows of, + its bias.
struct MultiplyExpertsCall {
    /// In the device's memory, all of one format and size.
    DeviceExpert const* experts;
    WeightFormat format;
    std::int32_t count;
    /// By expert its first row, and the end of the last.
    std::int32_t const* first;
    /// By row its token; null: rows are read where they stand.
    std::int32_t const* tokens;
    std::int64_t outputs;
    void const* in;
    std::int64_t in_row;
    void* out;
    std::int64_t out_row;
    std::int64_t rows;
    RowElement in_element = RowElement::f32;
    /// Of floats they are floats as well.
    RowElement out_element = RowElement::f32;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
