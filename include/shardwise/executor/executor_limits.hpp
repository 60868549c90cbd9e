// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/op/product_activations.hpp>
#include <shardwise/op/value.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How much a rank is made for.
struct ExecutorLimits {
    /// Sequences whose caches are kept.
    std::int64_t sequences = 1;
    /// Tokens of one sequence, the prompt included.
    std::int64_t context = 0;
    /// Tokens of all sequences that one call computes.
    std::int64_t step_tokens = 0;
    /// Tokens that the caches of all sequences hold together, in pages that they share; 0: `sequences` times `context`.
    std::int64_t cache_tokens = 0;
    /// What keys and values are kept in: f32, bf16 or i8 (executor/kv_cache.hpp).
    Dtype kv_dtype = Dtype::f32;
    /// What products make of activations, which says what they prepare of them: that of the rank's streams.
    ProductActivations product_activations = ProductActivations::full;
    /// False: the head (scores of the vocabulary, a pooler) is left out, and what the layers make is the result.
    bool has_head = true;
    /// Whether a device's steps of one token for each sequence are taken down and launched as graphs.
    bool has_graphs = true;
    /// What activations lie in between kernels: f32 or, on a device, bf16 or f16.
    Dtype activations = Dtype::f32;
};

/// What a model gives for a step: scores of the vocabulary, or a hidden state.
struct ExecutorOutput {
    /// Each sequence's last token, its pooled one, or every token.
    Rows rows = Rows::sequences;
    std::int64_t width = 0;
    bool is_logits = false;
    /// Logits are floats, hidden states as activations are.
    Dtype dtype = Dtype::f32;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
