// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/field.hpp>

#include <array>
#include <cstddef>

/// GGUF's tensor names that several families share.
///
/// Source  gguf-py 0.17 gguf/constants.py (TENSOR_NAMES) and gguf/tensor_mapping.py
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Copies rows; returns where the next ones go.
[[nodiscard]] constexpr NameAlias* copy_aliases(NameAlias const* rows, std::size_t count, NameAlias* out) {
    for (auto const* const end = rows + count; rows != end;) *out++ = *rows++;
    return out;
}

/// The rows of several alias tables as one.
template <std::size_t... Sizes>
[[nodiscard]] constexpr auto join_aliases(std::array<NameAlias, Sizes> const&... tables) {
    std::array<NameAlias, (Sizes + ...)> joined{};
    auto* next = joined.data();
    ((next = copy_aliases(tables.data(), Sizes, next)), ...);
    return joined;
}

/// What stands around the layers, and the output projection of attention.
inline constexpr std::array gguf_ends{
    NameAlias{"token_embd.weight", "model.embed_tokens.weight"},
    NameAlias{"output_norm.weight", "model.norm.weight"},
    NameAlias{"output.weight", "lm_head.weight"},
    NameAlias{"blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight"},
    NameAlias{"blk.{}.attn_output.bias", "model.layers.{}.self_attn.o_proj.bias"},
};

/// The norm before attention.
inline constexpr std::array gguf_first_norm{
    NameAlias{"blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight"},
};

/// Both.
inline constexpr auto gguf_frame = join_aliases(gguf_ends, gguf_first_norm);

/// Separate q, k and v projections.
inline constexpr std::array gguf_qkv{
    NameAlias{"blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight"},
    NameAlias{"blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight"},
    NameAlias{"blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight"},
    NameAlias{"blk.{}.attn_q.bias", "model.layers.{}.self_attn.q_proj.bias"},
    NameAlias{"blk.{}.attn_k.bias", "model.layers.{}.self_attn.k_proj.bias"},
    NameAlias{"blk.{}.attn_v.bias", "model.layers.{}.self_attn.v_proj.bias"},
};

/// Norms of each head of queries and keys.
inline constexpr std::array gguf_qk_norms{
    NameAlias{"blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.q_norm.weight"},
    NameAlias{"blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.k_norm.weight"},
};

/// The biases of layer norms around attention and MLP, and of the last one.
inline constexpr std::array gguf_norm_biases{
    NameAlias{"blk.{}.attn_norm.bias", "model.layers.{}.input_layernorm.bias"},
    NameAlias{"blk.{}.ffn_norm.bias", "model.layers.{}.post_attention_layernorm.bias"},
    NameAlias{"output_norm.bias", "model.norm.bias"},
};

/// The norm before the MLP where a layer has two norms.
inline constexpr std::array gguf_second_norm{
    NameAlias{"blk.{}.ffn_norm.weight", "model.layers.{}.post_attention_layernorm.weight"},
};

/// The four norms of a layer of gemma2 and gemma3.
inline constexpr std::array gguf_four_norms{
    NameAlias{"blk.{}.post_attention_norm.weight", "model.layers.{}.post_attention_layernorm.weight"},
    NameAlias{"blk.{}.ffn_norm.weight", "model.layers.{}.pre_feedforward_layernorm.weight"},
    NameAlias{"blk.{}.post_ffw_norm.weight", "model.layers.{}.post_feedforward_layernorm.weight"},
};

/// The norms of what attention and MLP give where there are no others (olmo2, exaone4).
inline constexpr std::array gguf_result_norms{
    NameAlias{"blk.{}.post_attention_norm.weight", "model.layers.{}.post_attention_layernorm.weight"},
    NameAlias{"blk.{}.post_ffw_norm.weight", "model.layers.{}.post_feedforward_layernorm.weight"},
};

/// The gated MLP.
inline constexpr std::array gguf_gated_mlp{
    NameAlias{"blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight"},
    NameAlias{"blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight"},
    NameAlias{"blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight"},
    NameAlias{"blk.{}.ffn_gate.bias", "model.layers.{}.mlp.gate_proj.bias"},
    NameAlias{"blk.{}.ffn_up.bias", "model.layers.{}.mlp.up_proj.bias"},
    NameAlias{"blk.{}.ffn_down.bias", "model.layers.{}.mlp.down_proj.bias"},
};

/// Router and stacked experts of the qwen families.
inline constexpr std::array gguf_experts{
    NameAlias{"blk.{}.ffn_gate_inp.weight", "model.layers.{}.mlp.gate.weight"},
    NameAlias{"blk.{}.ffn_gate_exps.weight", "model.layers.{}.mlp.experts.*.gate_proj.weight"},
    NameAlias{"blk.{}.ffn_up_exps.weight", "model.layers.{}.mlp.experts.*.up_proj.weight"},
    NameAlias{"blk.{}.ffn_down_exps.weight", "model.layers.{}.mlp.experts.*.down_proj.weight"},
};

/// Everything of a decoder of llama's layout.
inline constexpr auto gguf_llama = join_aliases(gguf_frame, gguf_qkv, gguf_second_norm, gguf_gated_mlp);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
