// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Apertus: norms of each head, an MLP without a gate whose activation, xIELU, has learned numbers.
///
/// Source  transformers 4.57 models/apertus/modeling_apertus.py
struct Apertus {
    static constexpr std::string_view name = "apertus";
    static constexpr std::string_view gguf_name = "apertus";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 131072).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 4096).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 14336).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 32).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 32).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 0).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 0).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 65536).in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 12000000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::xielu),
    };

    static constexpr auto aliases =
        detail::join_aliases(detail::gguf_ends, detail::gguf_qkv, detail::gguf_qk_norms,
                             std::array{
                                 NameAlias{"blk.{}.attn_norm.weight", "model.layers.{}.attention_layernorm.weight"},
                                 NameAlias{"blk.{}.ffn_norm.weight", "model.layers.{}.feedforward_layernorm.weight"},
                                 NameAlias{"blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight"},
                                 NameAlias{"blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight"},
                             });
    /// The converter writes the activation's numbers as metadata.
    static constexpr std::array gguf_numbers{
        NameAlias{"xielu.alpha_p", "model.layers.{}.mlp.act_fn.alpha_p"},
        NameAlias{"xielu.alpha_n", "model.layers.{}.mlp.act_fn.alpha_n"},
        NameAlias{"xielu.beta", "model.layers.{}.mlp.act_fn.beta"},
        NameAlias{"xielu.eps", "model.layers.{}.mlp.act_fn.eps"},
    };

    static constexpr detail::LlamaLayout layout{
        .prefix = "Apertus", .norms = {"attention_layernorm", {}, "feedforward_layernorm", {}}, .has_gate = false};

    /// attention_bias covers all four projections; positions are llama3's unless the config says otherwise.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked =
                detail::check_class(config, {"ApertusForCausalLM", "ApertusModel", "ApertusForTokenClassification"});
            !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.qk_norm = true;
        auto& rope = config.rope;
        if (!rope.is_given && rope.kind == RopeKind::standard) {
            rope.kind = RopeKind::llama3;
            rope.factor = 8.0;
            rope.low_frequency_factor = 1.0;
            rope.high_frequency_factor = 4.0;
            rope.original_max_positions = 8192;
        }
        config.sliding_window = config.layer_types_count = 0;
        config.local_layers = {};
        return {};
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::dense_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Apertus>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
