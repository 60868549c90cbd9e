// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <string_view>

/// Which norms stand around attention and MLP of a decoder layer, and what they are called.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A norm of a layer: its module, and the parameters that a program reads. Empty: the layer has none.
struct NormName {
    std::string_view module{};
    std::string_view weight{};
    std::string_view bias{};
};

inline constexpr NormName input_norm{"input_layernorm", "input_layernorm.weight", "input_layernorm.bias"};
inline constexpr NormName post_attention_norm{"post_attention_layernorm", "post_attention_layernorm.weight",
                                              "post_attention_layernorm.bias"};
inline constexpr NormName pre_feedforward_norm{"pre_feedforward_layernorm", "pre_feedforward_layernorm.weight",
                                               "pre_feedforward_layernorm.bias"};
inline constexpr NormName post_feedforward_norm{"post_feedforward_layernorm", "post_feedforward_layernorm.weight",
                                                "post_feedforward_layernorm.bias"};

/// The norms of a layer, in their order of registration: of what attention and MLP read, and of their results before these are
/// added to the residual.
struct LayerNorms {
    NormName before_attention = input_norm;
    NormName after_attention{};
    NormName before_mlp = post_attention_norm;
    NormName after_mlp{};
};

/// Norms before and after (gemma2, gemma3).
inline constexpr LayerNorms four_norms{input_norm, post_attention_norm, pre_feedforward_norm, post_feedforward_norm};
/// Norms of the results alone (olmo2, exaone4).
inline constexpr LayerNorms result_norms{{}, post_attention_norm, {}, post_feedforward_norm};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
