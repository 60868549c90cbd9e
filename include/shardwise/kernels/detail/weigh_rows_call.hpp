// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows of tokens for each of their experts, times its weight, as their kernel takes them.
template <class T>
struct WeighRowsCall {
    T const* in;
    std::int64_t in_row;
    /// By pair of a token and its expert the row that is made.
    std::int32_t const* places;
    float const* weights;
    std::int64_t weights_row;
    T* out;
    std::int64_t out_row;
    std::int64_t pairs;
    std::int64_t width;
    std::int64_t chosen;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
