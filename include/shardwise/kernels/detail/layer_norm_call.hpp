// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A layer norm as its kernel takes it; `bias` may be null.
template <class T, class Weight = T>
struct LayerNormCall {
    T const* in;
    std::int64_t in_row;
    Weight const* weight;
    Weight const* bias;
    T* out;
    std::int64_t out_row;
    std::int64_t rows;
    std::int64_t width;
    float epsilon;
    /// Of heads: rows of weights, which rows take in turn.
    std::int64_t weights = 1;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
