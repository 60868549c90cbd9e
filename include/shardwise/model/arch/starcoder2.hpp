// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/classic_decoder.hpp>
#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// StarCoder2: grouped heads, layer norms, an MLP of two layers, biases in every block.
///
/// Source  transformers 4.57 models/starcoder2/modeling_starcoder2.py
struct Starcoder2 {
    static constexpr std::string_view name = "starcoder2";
    static constexpr std::string_view gguf_name = "starcoder2";

    static constexpr auto fields =
        detail::decoder_fields({.vocab_size = 49152,
                                .hidden_size = 3072,
                                .intermediate_size = 12288,
                                .layers = 30,
                                .heads = 24,
                                .kv_heads = 2,
                                .max_positions = 4096,
                                .has_nullable_kv_heads = false,
                                .tie_word_embeddings = true,
                                .layer_norm_key = "norm_epsilon",
                                .norm_epsilon = 1e-5,
                                .activation = ActivationKind::gelu_tanh},
                               detail::window_field(0), flag_field("use_bias", &ModelConfig::attention_bias, true));

    static constexpr auto aliases =
        detail::join_aliases(detail::gguf_frame, detail::gguf_qkv, detail::gguf_second_norm, detail::gguf_norm_biases,
                             std::array{
                                 NameAlias{"blk.{}.ffn_up.weight", "model.layers.{}.mlp.c_fc.weight"},
                                 NameAlias{"blk.{}.ffn_up.bias", "model.layers.{}.mlp.c_fc.bias"},
                                 NameAlias{"blk.{}.ffn_down.weight", "model.layers.{}.mlp.c_proj.weight"},
                                 NameAlias{"blk.{}.ffn_down.bias", "model.layers.{}.mlp.c_proj.bias"},
                             });

    static constexpr detail::LlamaLayout layout{
        .prefix = "Starcoder2", .norm_class = "LayerNorm", .norm = NormKind::layer, .has_norm_bias = true};

    /// use_bias covers every linear layer of a block; a window is for all layers.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_out_bias = config.mlp_bias = config.attention_bias;
        config.layer_types_count = 0;
        return detail::complete_windows(config, [](std::int64_t) { return true; });
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const width = config.intermediate_size;
        auto const up =
            part.linear(width, config.hidden_size, config.mlp_bias, ShardRule::units(0, width), TensorUse::ffn_up);
        auto const down =
            part.linear(config.hidden_size, width, config.mlp_bias, ShardRule::units(1, width), TensorUse::ffn_down);
        auto const mlp =
            tree.add("Starcoder2MLP", {},
                     {{"c_fc", up}, {"c_proj", down}, {"act", part.plain(activation_class(config.activation))}});
        auto const attention = detail::add_attention(tree, config, layout);
        auto const layer = detail::add_decoder_layer(tree, config, layout, attention, mlp);
        detail::finish_decoder(tree, config, layout, {numbered(0, config.layers, layer, ModuleRole::layer)},
                               config.head_dim);
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::decoder_program(config, layout, tree, [&](BlockBuilder& body, ValueId in) {
            return detail::append_mlp(body, config, in, "mlp.c_fc", "mlp.c_proj");
        });
    }
};

static_assert(ModelArchitecture<Starcoder2>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
