// SPDX-License-Identifier: Apache-2.0
#pragma once

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

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 151552).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 4096).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 13696).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 40).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 32).in_gguf("attention.head_count"),
        positive_field("num_key_value_heads", &ModelConfig::kv_heads, 2).in_gguf("attention.head_count_kv"),
        positive_field("head_dim", &ModelConfig::head_dim, 128).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 131072).in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        flag_field("attention_bias", &ModelConfig::attention_bias, true),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 0.00000015625)
            .in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        rope_field("partial_rotary_factor", &RopeParameters::partial_rotary_factor, 0.5),
        natural_field("rotary_dim", &ModelConfig::rotary_dim, 0).in_gguf("rope.dimension_count"),
        activation_field("hidden_act", ActivationKind::silu),
    };

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
        if (auto const checked = detail::check_class(
                config,
                {"Glm4ForCausalLM", "Glm4Model", "Glm4ForSequenceClassification", "Glm4ForTokenClassification"});
            !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        if (auto const derived = detail::derive_rotary_dim(config, "partial_rotary_factor"); !derived) return derived;
        config.attention_out_bias = config.mlp_bias = false;
        config.interleaved_rope = true;
        config.sliding_window = config.layer_types_count = 0;
        config.local_layers = {};
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
