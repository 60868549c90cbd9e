// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Granite 3.x, dense: llama's layout with factors of embeddings, residuals, scores and logits.
///
/// Source  transformers 4.57 models/granite/modeling_granite.py
struct Granite {
    static constexpr std::string_view name = "granite";
    static constexpr std::string_view gguf_name = "granite";
    static constexpr GgufForm gguf_form{.permutes_rope_rows = true};

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 32000).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 4096).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 11008).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 32).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 32).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 0).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 0).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 2048).in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("mlp_bias", &ModelConfig::mlp_bias, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        real_field("embedding_multiplier", &ModelConfig::embedding_scale, 1.0).in_gguf("embedding_scale"),
        real_field("residual_multiplier", &ModelConfig::residual_scale, 1.0).in_gguf("residual_scale"),
        real_field("attention_multiplier", &ModelConfig::score_scale, 1.0).in_gguf("attention.scale"),
        real_field("logits_scaling", &ModelConfig::logit_scale, 1.0).in_gguf("logit_scale"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases = detail::gguf_llama;

    /// A file without the factor of the scores has the usual one.
    static constexpr std::array gguf_defaults{
        GgufDefault(
            "attention_multiplier", [](ModelConfig& config) { detail::assume_head_scale(config); },
            "llama.cpp 0c1e570, src/models/granite.cpp: f_attention_scale"),
    };

    static constexpr detail::LlamaLayout layout{.prefix = "Granite", .divides_logits = true};

    /// attention_bias covers all four projections; a factor of 0 would leave nothing of the model.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::check_class(config, {"GraniteForCausalLM", "GraniteModel"}); !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        if (config.logit_scale == 0.0)
            return Error{ErrorCode::invalid_field}.at("logits_scaling").because("divides the logits and is 0");
        if (!(config.score_scale > 0.0))
            return Error{ErrorCode::invalid_field}.at("attention_multiplier").because("must be above 0");
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

static_assert(ModelArchitecture<Granite>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
