// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/operation.hpp>

#include <cstdint>
#include <optional>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Everything about an attention but its tensors.
struct AttentionOptions {
    /// Heads, key and value widths, causality and window. `latent` and `is_cross` play no part here.
    AttentionShape shape{};
    /// Multiplies scores; 0: 1 / sqrt(key_dim).
    float scale = 0.0F;
    /// Scores become cap * tanh(score / cap); 0: they do not (gemma2).
    float soft_cap = 0.0F;
    /// The position of the first query among the keys: keys before it are its past. By default the queries are the last of the
    /// keys, as in decoding and in prefill.
    std::optional<std::int64_t> first_query{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
