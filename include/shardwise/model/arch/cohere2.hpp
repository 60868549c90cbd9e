// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Command R7B and Command A: Command R with windows in three of four layers, and only those turn.
///
/// Source  transformers 4.57 models/cohere2/modeling_cohere2.py
struct Cohere2 : detail::DenseDecoder<Cohere2> {
    static constexpr std::string_view name = "cohere2";
    static constexpr std::string_view gguf_name = "cohere2";

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 256000,
         .hidden_size = 8192,
         .intermediate_size = 22528,
         .layers = 40,
         .heads = 64,
         .max_positions = 8192,
         .tie_word_embeddings = true,
         .layer_norm_key = "layer_norm_eps",
         .norm_epsilon = 1e-5},
        positive_field("sliding_window", &ModelConfig::sliding_window, 4096).in_gguf("attention.sliding_window"),
        positive_field("sliding_window_pattern", 4), flag_field("attention_bias", &ModelConfig::attention_bias, false),
        real_field("logit_scale", &ModelConfig::logit_scale, 0.0625).in_gguf("logit_scale"));

    static constexpr auto aliases = detail::join_aliases(detail::gguf_frame, detail::gguf_qkv, detail::gguf_gated_mlp);

    static constexpr detail::LlamaLayout layout{.prefix = "Cohere2",
                                                .classes = detail::causal_classes,
                                                .norm_suffix = "LayerNorm",
                                                .norm = NormKind::layer,
                                                .norms = detail::one_norm,
                                                .is_parallel = true};

    /// Without layer_types, each sliding_window_pattern-th layer is full and the others slide.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.interleaved_rope = true;
        if (auto const checked = detail::complete_window_pattern(config, 4); !checked) return checked;
        detail::turn_windows_only(config);
        return {};
    }
};

static_assert(ModelArchitecture<Cohere2>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
