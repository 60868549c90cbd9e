// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/olmo2.hpp>
#include <shardwise/model/architecture.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// OLMo 3: OLMo 2 with windows in three of four layers, whose positions are never scaled.
///
/// Source  transformers 4.57 models/olmo3/modeling_olmo3.py
struct Olmo3 {
    static constexpr std::string_view name = "olmo3";
    static constexpr std::string_view gguf_name = "olmo2";
    /// llama.cpp writes it as "olmo2"; only it has windows.
    static constexpr std::string_view gguf_marker = "olmo2.attention.sliding_window";

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 50304,
         .hidden_size = 4096,
         .intermediate_size = 11008,
         .layers = 32,
         .heads = 32,
         .max_positions = 2048,
         .norm_epsilon = 1e-5},
        detail::window_field(4096), flag_field("attention_bias", &ModelConfig::attention_bias, false));

    static constexpr auto aliases = Olmo2::aliases;

    static constexpr detail::LlamaLayout layout{.prefix = "Olmo3",
                                                .classes = detail::causal_classes,
                                                .norms = detail::result_norms,
                                                .head_norms = {.are_wide = true}};

    /// Without layer_types, each fourth layer is full and the others slide; those turn by the same base without scaling.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.qk_norm = true;
        if (config.rope.local_theta == 0.0) config.rope.local_theta = config.rope.theta;
        return detail::complete_windows(config, [](std::int64_t layer) { return (layer + 1) % 4 != 0; });
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const attention = detail::add_attention(tree, config, layout);
        auto const mlp = detail::add_gated_mlp(tree, config, layout, config.intermediate_size);
        auto const layer = detail::add_decoder_layer(tree, config, layout, attention, mlp);
        auto const rotary = part.rotary("Olmo3RotaryEmbedding", config.head_dim);
        auto const rotaries = tree.add("ModuleDict", {}, {{"sliding_attention", rotary}, {"full_attention", rotary}});
        detail::finish_decoder(tree, config, layout,
                               detail::DecoderParts{part.vocabulary(config.vocab_size, config.hidden_size),
                                                    {numbered(0, config.layers, layer, ModuleRole::layer)},
                                                    {{"rotary_embs", rotaries}}});
        return tree;
    }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Olmo3>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
