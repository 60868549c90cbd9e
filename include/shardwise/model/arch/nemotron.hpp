// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Nemotron 3 and 4, Minitron: layer norms that add one to their weight, an MLP of squared relu without a gate.
///
/// Source  transformers 4.57 models/nemotron/modeling_nemotron.py
struct Nemotron {
    static constexpr std::string_view name = "nemotron";
    static constexpr std::string_view gguf_name = "nemotron";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 256000).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 6144).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 24576).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 32).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 48).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 0).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 0).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 4096).in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("mlp_bias", &ModelConfig::mlp_bias, false),
        real_field("norm_eps", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        rope_field("partial_rotary_factor", &RopeParameters::partial_rotary_factor, 0.5),
        natural_field("rotary_dim", &ModelConfig::rotary_dim, 0).in_gguf("rope.dimension_count"),
        activation_field("hidden_act", ActivationKind::relu_squared),
    };

    static constexpr auto aliases =
        detail::join_aliases(detail::gguf_frame, detail::gguf_qkv, detail::gguf_second_norm, detail::gguf_norm_biases,
                             std::array{
                                 NameAlias{"blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight"},
                                 NameAlias{"blk.{}.ffn_up.bias", "model.layers.{}.mlp.up_proj.bias"},
                                 NameAlias{"blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight"},
                                 NameAlias{"blk.{}.ffn_down.bias", "model.layers.{}.mlp.down_proj.bias"},
                             });

    static constexpr detail::LlamaLayout layout{.prefix = "Nemotron",
                                                .norm_suffix = "LayerNorm1P",
                                                .attention_suffix = "SdpaAttention",
                                                .norm = NormKind::layer_offset,
                                                .has_norm_bias = true,
                                                .has_gate = false,
                                                .has_rotary_dim = true};

    /// attention_bias covers all four projections. Scaled positions are those of transformers 5: 4.57 knows none.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked =
                detail::check_class(config, {"NemotronForCausalLM", "NemotronModel",
                                             "NemotronForSequenceClassification", "NemotronForTokenClassification"});
            !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        if (auto const derived = detail::derive_rotary_dim(config, "partial_rotary_factor"); !derived) return derived;
        config.attention_out_bias = config.attention_bias;
        config.sliding_window = config.layer_types_count = 0;
        config.local_layers = {};
        return {};
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::dense_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Nemotron>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
