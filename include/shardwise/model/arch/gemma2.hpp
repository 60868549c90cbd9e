// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/gemma_layer.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Gemma 2: four norms per layer, soft caps, every other layer with a window.
///
/// Source  transformers 4.57 models/gemma2/modeling_gemma2.py
struct Gemma2 {
    static constexpr std::string_view name = "gemma2";
    static constexpr std::string_view gguf_name = "gemma2";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 256000).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 2304).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 9216).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 26).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 8).in_gguf("attention.head_count"),
        positive_field("num_key_value_heads", &ModelConfig::kv_heads, 4).in_gguf("attention.head_count_kv"),
        positive_field("head_dim", &ModelConfig::head_dim, 256).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 8192).in_gguf("context_length"),
        natural_field("sliding_window", &ModelConfig::sliding_window, 4096).in_gguf("attention.sliding_window"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        refused_flag("use_bidirectional_attention", "lets tokens attend to later ones, which is not described"),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        real_field("query_pre_attn_scalar", &ModelConfig::query_scale, 256.0),
        real_field("attn_logit_softcapping", 50.0).in_gguf("attn_logit_softcapping"),
        real_field("final_logit_softcapping", &ModelConfig::logit_softcap, 30.0).in_gguf("final_logit_softcapping"),
        activation_field("hidden_activation", ActivationKind::gelu_tanh),
    };

    static constexpr auto aliases =
        detail::join_aliases(detail::gguf_frame, detail::gguf_qkv, detail::gguf_four_norms, detail::gguf_gated_mlp);

    static constexpr std::array gguf_defaults{
        GgufDefault(
            "query_pre_attn_scalar", [](ModelConfig& config) { detail::assume_query_scale(config, 46); },
            "llama.cpp 0c1e570, src/models/gemma2.cpp: f_attention_scale"),
    };

    static constexpr detail::LlamaLayout layout{.prefix = "Gemma2",
                                                .norm = NormKind::rms_offset,
                                                .norms = detail::four_norms,
                                                .score_cap = "attn_logit_softcapping"};

    /// Without layer_types, layers 0, 2, ... slide.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked =
                detail::check_class(config, {"Gemma2ForCausalLM", "Gemma2Model", "Gemma2ForSequenceClassification",
                                             "Gemma2ForTokenClassification"});
            !checked)
            return checked;
        if (auto const checked = detail::complete_gemma(config); !checked) return checked;
        return detail::complete_windows(config, [](std::int64_t layer) { return layer % 2 == 0; });
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::dense_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Gemma2>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
