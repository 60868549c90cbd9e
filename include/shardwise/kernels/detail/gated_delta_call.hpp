// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows of a head's matrix that a thread keeps, and threads that share a column: the widest key of a kernel has as many as both.
inline constexpr int delta_kept = 32;
inline constexpr int delta_groups = 8;

/// A gated delta rule over a sequence's tokens as its kernels take it.
template <class T>
struct GatedDeltaCall {
    T const* in;
    std::int64_t in_row;
    T const* ba;
    std::int64_t ba_row;
    T* out;
    std::int64_t out_row;
    float const* convolution;
    float const* dt_bias;
    float const* decay;
    float const* norm;
    float epsilon;
    float* state;
    /// [tokens, heads * channels]: q and k by their lengths, v; after the convolution. Of v a token of halves leaves what it has read.
    float* mixed;
    /// [tokens, value heads, 2]: what remains of a matrix, and how much of a correction it takes.
    float* gates;
    std::int64_t tokens;
    std::int32_t heads;
    std::int32_t values_per_key;
    std::int32_t key_dim;
    std::int32_t value_dim;
    std::int32_t kernel;
    bool is_first;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
