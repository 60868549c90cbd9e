// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Queries whose scores grow with their position, as their kernel takes them.
template <class T>
struct AttentionTemperatureCall {
    T* values;
    std::int64_t row;
    std::int32_t const* positions;
    std::int64_t rows;
    std::int64_t width;
    float step;
    float growth;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
