// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/gguf_names.hpp>

/// GGUF's tensor names of both deepseek versions, which it calls deepseek2.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// MLA's projections; newer files store kv_b as its halves attn_k_b and attn_v_b.
inline constexpr std::array gguf_mla{
    NameAlias{"blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight"},
    NameAlias{"blk.{}.attn_q_a.weight", "model.layers.{}.self_attn.q_a_proj.weight"},
    NameAlias{"blk.{}.attn_q_a.bias", "model.layers.{}.self_attn.q_a_proj.bias"},
    NameAlias{"blk.{}.attn_q_a_norm.weight", "model.layers.{}.self_attn.q_a_layernorm.weight"},
    NameAlias{"blk.{}.attn_q_b.weight", "model.layers.{}.self_attn.q_b_proj.weight"},
    NameAlias{"blk.{}.attn_kv_a_mqa.weight", "model.layers.{}.self_attn.kv_a_proj_with_mqa.weight"},
    NameAlias{"blk.{}.attn_kv_a_mqa.bias", "model.layers.{}.self_attn.kv_a_proj_with_mqa.bias"},
    NameAlias{"blk.{}.attn_kv_a_norm.weight", "model.layers.{}.self_attn.kv_a_layernorm.weight"},
    NameAlias{"blk.{}.attn_kv_b.weight", "model.layers.{}.self_attn.kv_b_proj.weight"},
    NameAlias{"blk.{}.attn_k_b.weight", "model.layers.{}.self_attn.kv_b_proj.weight"},
    NameAlias{"blk.{}.attn_v_b.weight", "model.layers.{}.self_attn.kv_b_proj.weight"},
};

/// The shared experts, and the correction of version 3's router.
inline constexpr std::array gguf_shared_experts{
    NameAlias{"blk.{}.ffn_gate_shexp.weight", "model.layers.{}.mlp.shared_experts.gate_proj.weight"},
    NameAlias{"blk.{}.ffn_up_shexp.weight", "model.layers.{}.mlp.shared_experts.up_proj.weight"},
    NameAlias{"blk.{}.ffn_down_shexp.weight", "model.layers.{}.mlp.shared_experts.down_proj.weight"},
    NameAlias{"blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.gate.e_score_correction_bias"},
};

/// Everything of a deepseek model.
inline constexpr auto gguf_deepseek =
    join_aliases(gguf_frame, gguf_mla, gguf_second_norm, gguf_gated_mlp, gguf_experts, gguf_shared_experts);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
