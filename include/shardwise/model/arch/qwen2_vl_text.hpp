// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
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

    static constexpr auto fields = detail::decoder_fields_without_head_dim(
        {.vocab_size = 152064,
         .hidden_size = 8192,
         .intermediate_size = 29568,
         .layers = 80,
         .heads = 64,
         .kv_heads = 8,
         .max_positions = 32768,
         .norm_epsilon = 1e-5,
         .rope_theta = 1000000.0},
        flag_field("use_sliding_window", &ModelConfig::use_sliding_window, false), detail::window_field(4096),
        natural_field("max_window_layers", 80));

    static constexpr auto aliases = detail::gguf_llama;

    static constexpr std::array<std::string_view, 2> classes{"ForConditionalGeneration", "TextModel"};
    /// The names of one version's classes.
    struct Version {
        std::string_view vision_block;
        detail::LlamaLayout layout;
    };
    static constexpr Version version{"Qwen2VLVisionBlock",
                                     {.prefix = "Qwen2VL",
                                      .classes = classes,
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
        config.head_dim = 0;
        if (auto const checked = detail::complete_decoder(config, own.layout); !checked) return checked;
        config.attention_bias = true;
        config.attention_out_bias = config.mlp_bias = false;
        if (!config.use_sliding_window) config.sliding_window = 0;
        auto const first = config.own["max_window_layers"];
        return detail::complete_windows(config, [&](std::int64_t layer) { return layer >= first; });
    }
    static constexpr ModuleTree tree_as(ModelConfig const& config, Version const& own) {
        auto tree = detail::dense_decoder_tree(config, own.layout);
        tree.keep_whole(own.vision_block);
        return tree;
    }
};

static_assert(ModelArchitecture<Qwen2VlText>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
