// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/gemma_layer.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Gemma 2: four norms per layer, soft caps, every other layer with a window.
///
/// Source  transformers 4.57 models/gemma2/modeling_gemma2.py
struct Gemma2 : detail::DenseDecoder<Gemma2> {
    static constexpr std::string_view name = "gemma2";
    static constexpr std::string_view gguf_name = "gemma2";

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 256000,
         .hidden_size = 2304,
         .intermediate_size = 9216,
         .layers = 26,
         .heads = 8,
         .kv_heads = 4,
         .head_dim = 256,
         .max_positions = 8192,
         .has_nullable_kv_heads = false,
         .has_nullable_head_dim = false,
         .tie_word_embeddings = true,
         .activation_key = "hidden_activation",
         .activation = ActivationKind::gelu_tanh},
        detail::window_field(4096), flag_field("attention_bias", &ModelConfig::attention_bias, false),
        refused_flag("use_bidirectional_attention", "lets tokens attend to later ones, which is not described"),
        real_field("query_pre_attn_scalar", &ModelConfig::query_scale, 256.0),
        real_field("attn_logit_softcapping", 50.0).in_gguf("attn_logit_softcapping"),
        real_field("final_logit_softcapping", &ModelConfig::logit_softcap, 30.0).in_gguf("final_logit_softcapping"));

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
        if (auto const checked = detail::complete_gemma(config, layout); !checked) return checked;
        return detail::complete_windows(config, [](std::int64_t layer) { return layer % 2 == 0; });
    }
};

static_assert(ModelArchitecture<Gemma2>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
