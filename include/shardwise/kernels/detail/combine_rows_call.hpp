// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Sums of experts' rows as their kernel takes them.
template <class T>
struct CombineRowsCall {
    T const* in;
    std::int64_t in_row;
    /// By pair its row.
    std::int32_t const* places;
    float const* weights;
    std::int64_t weights_row;
    T* out;
    std::int64_t out_row;
    std::int64_t rows;
    std::int64_t width;
    std::int64_t chosen;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
