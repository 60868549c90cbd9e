// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/multiply_call.hpp>
#include <shardwise/backend/detail/row_element.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A look-up in a table that lies on a device as a weight: its outputs are the rows. Without ids they are taken in their order.
struct WeightRowsCall {
    std::int32_t const* ids;
    std::int64_t first_row;
    DeviceWeightView table;
    void* out;
    std::int64_t out_row;
    std::int64_t tokens;
    /// Of `out`.
    RowElement element;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
