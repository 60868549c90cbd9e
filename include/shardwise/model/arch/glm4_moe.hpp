// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/deepseek_layout.hpp>
#include <shardwise/model/arch/detail/deepseek_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// GLM-4.5 and 4.6: DeepSeek-V3's experts after llama's attention, of whose heads half rotates. The layers that predict further
/// tokens are left out, as transformers leaves them out.
///
/// Source  transformers 4.57 models/glm4_moe/modeling_glm4_moe.py
struct Glm4Moe {
    static constexpr std::string_view name = "glm4_moe";
    static constexpr std::string_view gguf_name = "glm4moe";

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 151552,
         .hidden_size = 4096,
         .intermediate_size = 10944,
         .layers = 46,
         .heads = 96,
         .kv_heads = 8,
         .max_positions = 131072,
         .has_nullable_kv_heads = false,
         .norm_epsilon = 1e-5},
        positive_field("n_routed_experts", &ModelConfig::experts, 128)
            .named("num_local_experts")
            .in_gguf("expert_count"),
        positive_field("num_experts_per_tok", &ModelConfig::experts_per_token, 8).in_gguf("expert_used_count"),
        positive_field("n_shared_experts", 1).in_gguf("expert_shared_count"),
        positive_field("moe_intermediate_size", &ModelConfig::expert_intermediate_size, 1408)
            .in_gguf("expert_feed_forward_length"),
        natural_field("first_k_dense_replace", 1).in_gguf("leading_dense_block_count"),
        positive_field("n_group", &ModelConfig::expert_groups, 1).in_gguf("expert_group_count"),
        positive_field("topk_group", &ModelConfig::kept_expert_groups, 1).in_gguf("expert_group_used_count"),
        real_field("routed_scaling_factor", &ModelConfig::routed_scale, 1.0).in_gguf("expert_weights_scale"),
        flag_field("norm_topk_prob", &ModelConfig::norm_expert_weights, true).in_gguf("expert_weights_norm"),
        flag_field("use_qk_norm", &ModelConfig::qk_norm, false),
        flag_field("attention_bias", &ModelConfig::attention_bias, false), detail::partial_rotary_field(0.5),
        detail::rotary_dim_field);

    /// The norm before the MLP has the name that llama.cpp gives it here.
    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_frame, detail::gguf_qkv, detail::gguf_qk_norms, detail::gguf_gated_mlp, detail::gguf_experts,
        detail::gguf_shared_experts,
        std::array{
            NameAlias{"blk.{}.post_attention_norm.weight", "model.layers.{}.post_attention_layernorm.weight"},
        });

    static constexpr detail::DeepseekLayout layout{.common = {.prefix = "Glm4Moe"},
                                                   .router_class = "Glm4MoeTopkRouter",
                                                   .has_correction = true,
                                                   .has_wide_correction = true};

    /// attention_bias is for q, k and v; nothing else has a bias.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, "Glm4Moe", detail::causal_classes); !known) return known;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        if (auto const derived = detail::derive_rotary_dim(config, "partial_rotary_factor"); !derived) return derived;
        config.attention_out_bias = config.mlp_bias = false;
        config.router_score = RouterScore::sigmoid;
        config.group_rank = GroupRank::best_two;
        detail::leave_out_windows(config);
        return detail::complete_deepseek_experts(config);
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        auto const attention = detail::add_attention(tree, config, layout.common);
        detail::finish_deepseek_tree(tree, config, layout, attention, config.rotary_dim);
        return tree;
    }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::decoder_program(config, layout.common, tree, [&](BlockBuilder& body, ValueId in) {
            return detail::append_deepseek_mlp(body, config, in);
        });
    }
};

static_assert(ModelArchitecture<Glm4Moe>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
