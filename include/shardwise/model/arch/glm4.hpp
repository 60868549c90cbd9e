// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/fused_mlp.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// GLM-4 0414: half of each head turns, neighbours together; norms before and after attention and MLP; gate and up in one.
///
/// Source  transformers 4.57 models/glm4/modeling_glm4.py
struct Glm4 {
    static constexpr std::string_view name = "glm4";
    static constexpr std::string_view gguf_name = "glm4";

    static constexpr auto fields =
        detail::decoder_fields({.vocab_size = 151552,
                                .hidden_size = 4096,
                                .intermediate_size = 13696,
                                .layers = 40,
                                .heads = 32,
                                .kv_heads = 2,
                                .head_dim = 128,
                                .max_positions = 131072,
                                .has_nullable_kv_heads = false,
                                .has_nullable_head_dim = false,
                                .norm_epsilon = 0.00000015625},
                               flag_field("attention_bias", &ModelConfig::attention_bias, true),
                               detail::partial_rotary_field(0.5), detail::rotary_dim_field);

    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_frame, detail::gguf_qkv, detail::gguf_second_norm,
        std::array{
            NameAlias{"blk.{}.post_attention_norm.weight", "model.layers.{}.post_self_attn_layernorm.weight"},
            NameAlias{"blk.{}.post_ffw_norm.weight", "model.layers.{}.post_mlp_layernorm.weight"},
            NameAlias{"blk.{}.ffn_up.weight", "model.layers.{}.mlp.gate_up_proj.weight"},
            NameAlias{"blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight"},
        });

    static constexpr detail::LayerNorms norms{
        .after_attention = "post_self_attn_layernorm", .after_mlp = "post_mlp_layernorm", .has_results_last = true};
    static constexpr detail::LlamaLayout layout{.prefix = "Glm4", .norms = norms};

    /// attention_bias is for q, k and v; nothing else has a bias.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        if (auto const derived = detail::derive_rotary_dim(config, "partial_rotary_factor"); !derived) return derived;
        config.attention_out_bias = config.mlp_bias = false;
        config.interleaved_rope = true;
        detail::leave_out_windows(config);
        return {};
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        auto const attention = detail::add_attention(tree, config, layout);
        auto const mlp = detail::add_fused_mlp(tree, config, layout);
        auto const layer = detail::add_decoder_layer(tree, config, layout, attention, mlp);
        detail::finish_decoder(tree, config, layout, {numbered(0, config.layers, layer, ModuleRole::layer)},
                               config.rotary_dim);
        return tree;
    }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::decoder_program(config, layout, tree, [&](BlockBuilder& body, ValueId in) {
            return detail::append_fused_mlp(body, config, in);
        });
    }
};

static_assert(ModelArchitecture<Glm4>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
