// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The text model of Qwen2-VL: qwen2 with defaults of its own. Positions of text are the same along all three axes, so that
/// its rotation is the usual one.
///
/// Source  transformers 4.57 models/qwen2_vl/modeling_qwen2_vl.py (Qwen2VLTextModel)
struct Qwen2VlText {
    static constexpr std::string_view name = "qwen2_vl_text";
    static constexpr std::string_view gguf_name = "qwen2vl";
    /// Published config.json files have the text model's keys beside vision_config.
    static constexpr std::string_view text_part_of = "qwen2_vl";
    static constexpr bool may_be_flat = true;

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 152064).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 8192).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 29568).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 80).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 64).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 8).in_gguf("attention.head_count_kv"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 32768).in_gguf("context_length"),
        flag_field("use_sliding_window", &ModelConfig::use_sliding_window, false),
        natural_field("sliding_window", &ModelConfig::sliding_window, 4096).in_gguf("attention.sliding_window"),
        natural_field("max_window_layers", &ModelConfig::sliding_pattern, 80),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 1000000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases = detail::gguf_llama;

    /// The classes of one version: the model with a head and without, and the layout's names.
    struct Version {
        std::string_view with_head;
        std::string_view without_head;
        std::string_view vision_block;
        detail::LlamaLayout layout;
    };
    static constexpr Version version{"Qwen2VLForConditionalGeneration", "Qwen2VLTextModel", "Qwen2VLVisionBlock",
                                     {.prefix = "Qwen2VL",
                                      .norm_class = "Qwen2RMSNorm",
                                      .model_suffix = "TextModel",
                                      .has_layer_rotary = true,
                                      .mlp_class = "Qwen2MLP"}};

    static constexpr Result<> complete(ModelConfig& config) { return complete_as(config, version); }
    static constexpr ModuleTree tree(auto const& config) { return tree_as(config, version); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, version.layout, tree);
    }

protected:
    /// q, k and v have biases, o has none; from max_window_layers on layers slide where windows are used.
    static constexpr Result<> complete_as(ModelConfig& config, Version const& own) {
        if (auto const checked = detail::check_class(config, {own.with_head, own.without_head}); !checked) return checked;
        config.head_dim = 0;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        config.attention_bias = true;
        config.attention_out_bias = config.mlp_bias = false;
        if (!config.use_sliding_window) config.sliding_window = 0;
        return detail::complete_windows(config, [&](std::int64_t layer) { return layer >= config.sliding_pattern; });
    }
    static constexpr ModuleTree tree_as(ModelConfig const& config, Version const& own) {
        auto tree = detail::dense_decoder_tree(config, own.layout);
        tree.keep_whole(own.vision_block);
        return tree;
    }
};

static_assert(ModelArchitecture<Qwen2VlText>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
