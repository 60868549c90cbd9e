// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/gemma_layer.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Gemma 3, the text part: norms of query and key heads, five sliding layers to each full one with a rope of their own.
///
/// Source  transformers 4.57 models/gemma3/modeling_gemma3.py
struct Gemma3Text {
    static constexpr std::string_view name = "gemma3_text";
    static constexpr std::string_view gguf_name = "gemma3";

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 262208,
         .hidden_size = 2304,
         .intermediate_size = 9216,
         .layers = 26,
         .heads = 8,
         .kv_heads = 4,
         .head_dim = 256,
         .max_positions = 131072,
         .has_nullable_kv_heads = false,
         .has_nullable_head_dim = false,
         .tie_word_embeddings = true,
         .rope_theta = 1000000.0,
         .activation_key = "hidden_activation",
         .activation = ActivationKind::gelu_tanh},
        detail::window_field(4096), positive_field("sliding_window_pattern", 6),
        flag_field("use_bidirectional_attention", false),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        rope_field("rope_local_base_freq", &RopeParameters::local_theta, 10000.0).in_gguf("rope.freq_base_swa"),
        real_field("query_pre_attn_scalar", &ModelConfig::query_scale, 256.0),
        real_field("final_logit_softcapping", &ModelConfig::logit_softcap, 0.0).in_gguf("final_logit_softcapping"));

    static constexpr auto aliases = detail::join_aliases(detail::gguf_frame, detail::gguf_qkv, detail::gguf_qk_norms,
                                                         detail::gguf_four_norms, detail::gguf_gated_mlp);

    /// A file without a window has layers that see everything.
    static constexpr std::array gguf_defaults{
        GgufDefault(
            "query_pre_attn_scalar", [](ModelConfig& config) { detail::assume_query_scale(config, 62); },
            "llama.cpp 0c1e570, src/models/gemma3.cpp: f_attention_scale"),
        GgufDefault(
            "sliding_window", [](ModelConfig& config) { config.sliding_window = 0; },
            "llama.cpp 0c1e570, src/models/gemma3.cpp: LLAMA_SWA_TYPE_NONE"),
        GgufDefault(
            "rope_local_base_freq", [](ModelConfig& config) { config.rope.local_theta = 10000.0; },
            "llama.cpp 0c1e570, src/llama-hparams.h: rope_freq_base_train_swa"),
    };

    static constexpr std::array<std::string_view, 3> classes{"ForCausalLM", "TextModel",
                                                             "TextForSequenceClassification"};
    static constexpr detail::LlamaLayout layout{.prefix = "Gemma3",
                                                .classes = classes,
                                                .model_suffix = "TextModel",
                                                .norm = NormKind::rms_offset,
                                                .norms = detail::four_norms,
                                                .sees_later = "use_bidirectional_attention"};

    /// Without layer_types, each sliding_window_pattern-th layer is full and the others slide. The model with images
    /// counts as its text part.
    static constexpr Result<> complete(ModelConfig& config) {
        if (config.model_class.view() == "Gemma3ForConditionalGeneration") config.model_class = "Gemma3ForCausalLM";
        if (auto const checked = detail::complete_gemma(config, layout); !checked) return checked;
        config.qk_norm = true;
        return detail::complete_window_pattern(config, 6);
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        auto const dtype = config.dtype_or(Dtype::f32);
        detail::PartMaker part(tree, dtype);
        auto const attention = detail::add_attention(tree, config, layout);
        auto const mlp = detail::add_gated_mlp(tree, config, layout, config.intermediate_size);
        auto const layer = detail::add_decoder_layer(tree, config, layout, attention, mlp);
        auto const table =
            part.tensors().table(config.vocab_size, config.hidden_size, ShardRule::units(0, config.vocab_size));
        Tensor scale{.name = "embed_scale", .shape = {}, .dtype = dtype, .kind = TensorKind::transient_buffer};
        auto const embedding = tree.add("Gemma3TextScaledWordEmbedding", {table, scale});
        auto const rotary = part.rotary("Gemma3RotaryEmbedding", config.head_dim);
        detail::finish_decoder(tree, config, layout,
                               detail::DecoderParts{embedding,
                                                    {numbered(0, config.layers, layer, ModuleRole::layer)},
                                                    {{"rotary_emb", rotary}, {"rotary_emb_local", rotary}}});
        // The classes of the vision part that transformers' Gemma3 models name, which the text part does not contain.
        for (auto const* const unused :
             {"SiglipEncoderLayer", "SiglipMultiheadAttentionPoolingHead", "SiglipVisionEmbeddings"}) {
            tree.keep_whole(unused);
        }
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        if (config.own["use_bidirectional_attention"] == 0) return detail::dense_decoder_program(config, layout, tree);
        // transformers halves the window, whose bounds then exclude the far end, where tokens see both sides.
        auto both_sides = config;
        if (config.sliding_window > 0) both_sides.sliding_window = config.sliding_window / 2 + 1;
        return detail::dense_decoder_program(both_sides, layout, tree);
    }
};

static_assert(ModelArchitecture<Gemma3Text>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
