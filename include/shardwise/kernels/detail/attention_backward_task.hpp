// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/attention_task.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Keys and queries of a block of the backward pass: their scores and the scores' gradients (16 KiB each) stay in the first-level
/// cache. No result depends on either.
inline constexpr std::int64_t backward_keys = 64;
inline constexpr std::int64_t backward_queries = 64;

/// The backward pass of an attention as its kernel takes it: pointers to the first element of each tensor, rows so many floats
/// apart. Gradients of keys and values are those of one query head.
struct AttentionBackwardTask {
    AttentionTask<float, float> forward;
    TensorView<float const, 2, Host> out_gradient;
    TensorView<float const, 2, Host> log_sums;
    /// [heads, queries]: the sum of out * out_gradient.
    float const* shares;
    TensorView<float, 2, Host> q_gradient;
    float scale;
};

/// Where a head's gradients of keys and values are put.
struct HeadGradients {
    float* k = nullptr;
    float* v = nullptr;
    std::int64_t k_stride = 0;
    std::int64_t v_stride = 0;
    bool is_added = false;
};

/// Memory of one thread: a block's keys as rows and columns, its values as columns, both gradients; some queries and their output's
/// gradients; scores and their gradients.
struct AttentionBackwardScratch {
    float* keys;
    float* key_columns;
    float* value_columns;
    float* key_gradient;
    float* value_gradient;
    float* queries;
    float* out_gradient;
    float* scores;
    float* score_gradient;

    [[nodiscard]] static std::int64_t floats(AttentionShape const& shape) {
        return backward_keys * (3 * shape.key_dim + 2 * shape.value_dim) +
               backward_queries * (shape.key_dim + shape.value_dim) + 2 * backward_queries * backward_keys;
    }
    AttentionBackwardScratch(float* memory, AttentionShape const& shape) {
        auto const take = [&memory](std::int64_t count) {
            auto* const taken = memory;
            memory += count;
            return taken;
        };
        scores = take(backward_queries * backward_keys);
        score_gradient = take(backward_queries * backward_keys);
        key_columns = take(backward_keys * shape.key_dim);
        value_columns = take(backward_keys * shape.value_dim);
        keys = take(backward_keys * shape.key_dim);
        key_gradient = take(backward_keys * shape.key_dim);
        value_gradient = take(backward_keys * shape.value_dim);
        queries = take(backward_queries * shape.key_dim);
        out_gradient = take(backward_queries * shape.value_dim);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
