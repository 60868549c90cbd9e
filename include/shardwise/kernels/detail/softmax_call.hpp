// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A softmax as its kernel takes it.
template <class T>
struct SoftmaxCall {
    T const* in;
    std::int64_t in_row;
    T* out;
    std::int64_t out_row;
    std::int64_t rows;
    std::int64_t width;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
