// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/op/operation.hpp>

#include <cstdint>
#include <limits>
#include <optional>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Everything about an attention but its tensors.
struct AttentionOptions {
    /// Heads, key and value widths, causality and window. `latent` plays no part here, `is_cross` only where a step table says how long
    /// sources are.
    AttentionShape shape{};
    /// Multiplies scores; 0: 1 / sqrt(key_dim).
    float scale = 0.0F;
    /// Scores become cap * tanh(score / cap); 0: they do not (gemma2).
    float soft_cap = 0.0F;
    /// The position of the first query among the keys: keys before it are its past. By default the queries are the last of the
    /// keys, as in decoding and in prefill.
    std::optional<std::int64_t> first_query{};
};

/// Errors  invalid_argument for a scale or a soft cap that is negative or no finite number
[[nodiscard]] inline Result<> check_attention_options(AttentionOptions const& options) {
    auto const is_size = [](float value) { return value >= 0.0F && value <= std::numeric_limits<float>::max(); };
    if (is_size(options.scale) && is_size(options.soft_cap)) return {};
    return Error{ErrorCode::invalid_argument}
        .in("attention")
        .at(is_size(options.scale) ? "soft_cap" : "scale")
        .because("must be at least 0, and finite");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
