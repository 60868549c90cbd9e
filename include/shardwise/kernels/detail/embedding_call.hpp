// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/multiply_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A table look-up as its kernel takes it.
template <class T>
struct EmbeddingCall {
    std::int32_t const* ids;
    std::int64_t first_row;
    T const* table;
    std::int64_t table_row;
    std::int64_t table_rows;
    T* out;
    std::int64_t out_row;
    std::int64_t tokens;
    std::int64_t width;
};

/// A look-up in a table that lies on a device as a weight: its outputs are the rows.
struct WeightRowsCall {
    std::int32_t const* ids;
    std::int64_t first_row;
    DeviceWeightView table;
    float* out;
    std::int64_t out_row;
    std::int64_t tokens;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
