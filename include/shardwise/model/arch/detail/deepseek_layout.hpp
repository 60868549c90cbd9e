// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/config_checks.hpp>
#include <shardwise/model/arch/detail/sparse_mlp.hpp>

/// What deepseek's second and third version share: attention over a compressed latent (MLA), routed and shared experts.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What differs between the versions, beside the prefix of class names.
struct DeepseekLayout {
    LlamaLayout common;
    /// The class of the router.
    std::string_view router_class;
    /// The router adds a correction, a buffer that files store, before it chooses (version 3).
    bool has_correction = false;
    /// The correction is fp32 whatever the model's dtype (glm4_moe).
    bool has_wide_correction = false;
};

/// Makes dense_layers the truth, checks the experts and derives the width of the shared ones.
[[nodiscard]] constexpr Result<> complete_deepseek_experts(ModelConfig& config) {
    auto const first_with_experts = config.own["first_k_dense_replace"];
    config.dense_layers = {};
    for (std::int64_t layer = 0; layer < config.layers && layer < first_with_experts; ++layer) {
        config.dense_layers.insert(layer);
    }
    if (first_with_experts < config.layers) {
        if (config.experts < 1) {
            return Error{ErrorCode::invalid_field}
                .at("n_routed_experts")
                .because("must be at least 1")
                .got(config.experts);
        }
        if (auto const ok = check_experts(config); !ok) return ok;
    }
    config.shared_expert_intermediate_size = config.own["n_shared_experts"] * config.expert_intermediate_size;
    // DeepSeek-V3, README_WEIGHTS.md: 36.6 B with the head, without the embedding; V2-Lite's 2.4 B is counted so too.
    config.active_embedding = false;
    return check_products(config);
}

/// The checks and derived values of both versions. Layer i has experts when i >= first_k_dense_replace; transformers
/// reads no moe_layer_freq.
[[nodiscard]] constexpr Result<> complete_deepseek(ModelConfig& config) {
    config.kv_heads = config.heads;
    if (auto const ok = check_heads(config, true); !ok) return ok;
    struct Size {
        std::string_view key;
        std::int64_t value;
        std::int64_t least;
    };
    for (auto const& size :
         {Size{"kv_lora_rank", config.kv_lora_rank, 1}, Size{"q_lora_rank", config.q_lora_rank, 0},
          Size{"qk_nope_head_dim", config.qk_nope_head_dim, 1}, Size{"qk_rope_head_dim", config.qk_rope_head_dim, 1},
          Size{"v_head_dim", config.v_head_dim, 1}, Size{"n_shared_experts", config.own["n_shared_experts"], 0},
          Size{"first_k_dense_replace", config.own["first_k_dense_replace"], 0}}) {
        constexpr std::int64_t most = 1 << 20;
        if (size.value < size.least) {
            return Error{ErrorCode::invalid_field}
                .at(size.key)
                .because("is too small")
                .got(size.value)
                .at_least(size.least);
        }
        if (size.value > most) {
            return Error{ErrorCode::invalid_field}.at(size.key).because("is too large").got(size.value).at_most(most);
        }
    }
    if (config.qk_rope_head_dim % 2 != 0) {
        return Error{ErrorCode::invalid_field}
            .at("qk_rope_head_dim")
            .because("is odd; positions rotate pairs")
            .got(config.qk_rope_head_dim);
    }
    if (auto const ok = complete_deepseek_experts(config); !ok) return ok;
    if (config.head_dim == 0) config.head_dim = config.qk_rope_head_dim;
    config.attention_out_bias = config.attention_bias;
    leave_out_windows(config);
    auto widest = config;
    widest.head_dim = config.qk_nope_head_dim + config.qk_rope_head_dim + config.v_head_dim;
    for (auto const rank : {config.q_lora_rank, config.kv_lora_rank}) {
        if (rank > widest.hidden_size) widest.hidden_size = rank;
    }
    return check_products(widest);
}

/// Attention's geometry: every head has keys and values of its own, made from one latent that the cache may hold
/// instead.
[[nodiscard]] constexpr AttentionShape mla_shape(ModelConfig const& config) {
    return {.heads = config.heads,
            .kv_heads = config.heads,
            .key_dim = config.qk_nope_head_dim + config.qk_rope_head_dim,
            .value_dim = config.v_head_dim,
            .latent = config.kv_lora_rank + config.qk_rope_head_dim,
            .rotary = config.qk_rope_head_dim,
            .rope_layout = rope_layout(config),
            .has_yarn_scores = true};
}

/// The latent as rotation sees it: one head, whose end is the key that all heads share.
[[nodiscard]] constexpr AttentionShape latent_shape(ModelConfig const& config) {
    auto shape = mla_shape(config);
    shape.heads = shape.kv_heads = 1;
    shape.key_dim = shape.latent;
    return shape;
}

/// transformers' classes make these two norms without the configuration's epsilon.
inline constexpr double latent_norm_epsilon = 1e-6;

/// self_attn: the low-rank pairs q_a, q_b (or q_proj) and kv_a, kv_b with norms between; tensor-parallel ranks shard the
/// heads of the second of each pair.
[[nodiscard]] constexpr ModuleId add_mla_attention(ModuleTree& tree, ModelConfig const& config,
                                                   LlamaLayout const& layout) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const shape = mla_shape(config);
    auto const hidden = config.hidden_size;
    auto const rank = config.kv_lora_rank;
    auto const heads = ShardRule::units(0, config.heads);
    auto const norm_class = part.name(layout.prefix, layout.norm_suffix);
    auto const q_width = config.heads * shape.key_dim;
    List<Child> children;
    if (config.q_lora_rank > 0) {
        children.push_back({"q_a_proj", part.linear(config.q_lora_rank, hidden, config.attention_bias)});
        children.push_back({"q_a_layernorm", part.norm(norm_class, config.q_lora_rank)});
        children.push_back({"q_b_proj", part.linear(q_width, config.q_lora_rank, false, heads)});
    } else {
        children.push_back({"q_proj", part.linear(q_width, hidden, false, heads, TensorUse::attention_q)});
    }
    auto const up_width = config.heads * (config.qk_nope_head_dim + config.v_head_dim);
    children.push_back({"kv_a_proj_with_mqa", part.linear(shape.latent, hidden, config.attention_bias)});
    children.push_back({"kv_a_layernorm", part.norm(norm_class, rank)});
    children.push_back({"kv_b_proj", part.linear(up_width, rank, false, heads)});
    children.push_back({"o_proj", part.linear(hidden, config.heads * shape.value_dim, config.attention_out_bias,
                                              ShardRule::units(1, config.heads), TensorUse::attention_output)});
    return tree.add(part.name(layout.prefix, layout.attention_suffix), children);
}

/// mlp of a layer with experts: the experts, the router, the shared experts as one MLP.
[[nodiscard]] constexpr ModuleId add_deepseek_experts(ModuleTree& tree, ModelConfig const& config,
                                                      DeepseekLayout const& layout) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const& common = layout.common;
    auto const expert = add_gated_mlp(tree, config, common, config.expert_intermediate_size);
    List<Child> children{{"experts", add_expert_list(tree, config, expert)}};
    auto const weight = part.tensors().weight(config.experts, config.hidden_size, {}, TensorUse::router);
    if (layout.has_correction) {
        Tensor correction{.name = "e_score_correction_bias",
                          .shape = {config.experts},
                          .dtype = layout.has_wide_correction ? Dtype::f32 : config.dtype_or(Dtype::f32),
                          .kind = TensorKind::buffer,
                          .use = TensorUse::bias};
        children.push_back({"gate", tree.add(layout.router_class, {weight, correction})});
    } else {
        children.push_back({"gate", tree.add(layout.router_class, {weight})});
    }
    if (config.own["n_shared_experts"] > 0) {
        children.push_back(
            {"shared_experts", add_gated_mlp(tree, config, common, config.shared_expert_intermediate_size)});
    }
    return tree.add(part.name(common.prefix, "MoE"), children);
}

/// The tree around `attention`: first the layers without experts, then those with them.
constexpr void finish_deepseek_tree(ModuleTree& tree, ModelConfig const& config, DeepseekLayout const& layout,
                                    ModuleId attention, std::int64_t rotary_dim) {
    auto const& common = layout.common;
    bool const has_dense = config.dense_layers.contains(0);
    bool const has_sparse = config.own["first_k_dense_replace"] < config.layers;
    ModuleId dense = 0;
    ModuleId sparse = 0;
    if (has_dense) {
        auto const mlp = add_gated_mlp(tree, config, common, config.intermediate_size);
        dense = add_decoder_layer(tree, config, common, attention, mlp);
    }
    if (has_sparse)
        sparse = add_decoder_layer(tree, config, common, attention, add_deepseek_experts(tree, config, layout));
    finish_decoder(tree, config, common, mixed_layers(config, sparse, dense), rotary_dim);
}

[[nodiscard]] constexpr ModuleTree deepseek_tree(ModelConfig const& config, DeepseekLayout const& layout) {
    ModuleTree tree;
    auto const attention = add_mla_attention(tree, config, layout.common);
    finish_deepseek_tree(tree, config, layout, attention, config.head_dim);
    return tree;
}

/// normed -> q; normed -> [latent | rotated key], which the compressed cache holds -> keys and values -> attention ->
/// o.
[[nodiscard]] constexpr ValueId append_mla_attention(BlockBuilder& body, ModelConfig const& config, ValueId normed) {
    auto const shape = mla_shape(config);
    auto q = normed;
    if (body.has("self_attn.q_a_proj")) {
        q = body.linear(normed, "q_latent", "self_attn.q_a_proj");
        q = body.norm(q, NormKind::rms, "self_attn.q_a_layernorm", latent_norm_epsilon);
    }
    q = body.linear(q, "q", config.q_lora_rank > 0 ? "self_attn.q_b_proj" : "self_attn.q_proj");
    auto latent = body.linear(normed, "latent", "self_attn.kv_a_proj_with_mqa");
    latent = body.part_norm(latent, NormKind::rms, "self_attn.kv_a_layernorm", latent_norm_epsilon);
    q = body.rope(q, shape);
    latent = body.rope(latent, latent_shape(config));
    auto const kv = body.linear(latent, "kv", "self_attn.kv_b_proj");
    return body.linear(body.attention(q, latent, kv, shape), "attention_out", "self_attn.o_proj");
}

/// The chosen experts, and the shared experts on every token.
[[nodiscard]] constexpr ValueId append_deepseek_mlp(BlockBuilder& body, ModelConfig const& config, ValueId normed) {
    if (!body.has("mlp.experts")) return append_gated_mlp(body, config, normed);
    auto const routed = append_experts(body, config, normed);
    if (!body.has("mlp.shared_experts")) return routed;
    return body.add(routed, append_shared_expert(body, config, normed, "mlp.shared_experts"));
}

/// The program of both versions.
[[nodiscard]] constexpr BlockProgram deepseek_program(ModelConfig const& config, DeepseekLayout const& layout,
                                                      ModuleTree const& tree) {
    return decoder_program(
        config, layout.common, tree,
        [&](BlockBuilder& body, ValueId in, LayerKind const&) { return append_mla_attention(body, config, in); },
        [&](BlockBuilder& body, ValueId in) { return append_deepseek_mlp(body, config, in); });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
