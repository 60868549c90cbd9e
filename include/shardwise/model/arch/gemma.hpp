// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/gemma_layer.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Gemma 2B and 7B: heads of 256 whatever the hidden size, tied embeddings.
///
/// Source  transformers 4.57 models/gemma/modeling_gemma.py
struct Gemma {
    static constexpr std::string_view name = "gemma";
    static constexpr std::string_view gguf_name = "gemma";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 256000).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 3072).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 24576).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 28).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 16).in_gguf("attention.head_count"),
        positive_field("num_key_value_heads", &ModelConfig::kv_heads, 16).in_gguf("attention.head_count_kv"),
        positive_field("head_dim", &ModelConfig::head_dim, 256).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 8192).in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        refused_flag("use_bidirectional_attention", "lets tokens attend to later ones, which is not described"),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::gelu_tanh),
    };

    static constexpr auto aliases = detail::gguf_llama;

    static constexpr detail::LlamaLayout layout{.prefix = "Gemma", .norm = NormKind::rms_offset};

    /// transformers 4.57 reads hidden_act and not hidden_activation.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::check_class(
                config,
                {"GemmaForCausalLM", "GemmaModel", "GemmaForSequenceClassification", "GemmaForTokenClassification"});
            !checked)
            return checked;
        config.sliding_window = config.layer_types_count = 0;
        config.local_layers = {};
        return detail::complete_gemma(config);
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::dense_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Gemma>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
