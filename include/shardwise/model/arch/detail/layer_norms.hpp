// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

inline constexpr std::string_view input_norm = "input_layernorm";
inline constexpr std::string_view post_attention_norm = "post_attention_layernorm";
inline constexpr std::string_view pre_feedforward_norm = "pre_feedforward_layernorm";
inline constexpr std::string_view post_feedforward_norm = "post_feedforward_layernorm";

/// The modules of a layer's norms, in their order of registration: of what attention and MLP read, and of their results before these
/// are added to the residual. Empty: the layer has none.
struct LayerNorms {
    std::string_view before_attention = input_norm;
    std::string_view after_attention{};
    std::string_view before_mlp = post_attention_norm;
    std::string_view after_mlp{};
    /// The norms of results are registered after both others (glm4).
    bool has_results_last = false;
};

/// Norms before and after (gemma2, gemma3).
inline constexpr LayerNorms four_norms{input_norm, post_attention_norm, pre_feedforward_norm, post_feedforward_norm};
/// Norms of the results alone (olmo2, exaone4).
inline constexpr LayerNorms result_norms{{}, post_attention_norm, {}, post_feedforward_norm};

/// One norm, for attention and MLP side by side (cohere).
inline constexpr LayerNorms one_norm{input_norm, {}, {}, {}};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
