// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// SmolLM3: llama whose every fourth layer does not turn its queries and keys.
///
/// Source  transformers 4.57 models/smollm3/modeling_smollm3.py; llama.cpp 0c1e570, src/models/smollm3.cpp, takes the fourth
///         layers for granted
struct SmolLM3 {
    static constexpr std::string_view name = "smollm3";
    static constexpr std::string_view gguf_name = "smollm3";
    static constexpr GgufForm gguf_form{.permutes_rope_rows = true};

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 128256).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 2048).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 11008).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 36).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 16).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 4).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 0).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 32768).in_gguf("context_length"),
        flag_field("use_sliding_window", &ModelConfig::use_sliding_window, false),
        natural_field("sliding_window", &ModelConfig::sliding_window, 0).in_gguf("attention.sliding_window"),
        positive_field("no_rope_layer_interval", &ModelConfig::rope_free_interval, 4),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("mlp_bias", &ModelConfig::mlp_bias, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 2000000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases = detail::gguf_llama;

    static constexpr detail::LlamaLayout layout{.prefix = "SmolLM3"};

    /// attention_bias covers all four projections; the layers that slide, where windows are used, are those that do not turn.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked =
                detail::check_class(config, {"SmolLM3ForCausalLM", "SmolLM3Model", "SmolLM3ForSequenceClassification",
                                             "SmolLM3ForTokenClassification"});
            !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        if (auto const checked = detail::complete_rope_free_layers(config); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        // layer_types alone say it where they are there.
        if (!config.use_sliding_window && config.layer_types_count == 0) config.sliding_window = 0;
        return detail::complete_windows(config,
                                        [&](std::int64_t layer) { return config.rope_free_layers.contains(layer); });
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::dense_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<SmolLM3>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
