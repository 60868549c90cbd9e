// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Nemotron 3 and 4, Minitron: layer norms that add one to their weight, an MLP of squared relu without a gate.
///
/// Source  transformers 4.57 models/nemotron/modeling_nemotron.py
struct Nemotron : detail::DenseDecoder<Nemotron> {
    static constexpr std::string_view name = "nemotron";
    static constexpr std::string_view gguf_name = "nemotron";

    static constexpr auto fields =
        detail::decoder_fields({.vocab_size = 256000,
                                .hidden_size = 6144,
                                .intermediate_size = 24576,
                                .layers = 32,
                                .heads = 48,
                                .max_positions = 4096,
                                .layer_norm_key = "norm_eps",
                                .norm_epsilon = 1e-5,
                                .activation = ActivationKind::relu_squared},
                               flag_field("attention_bias", &ModelConfig::attention_bias, false),
                               flag_field("mlp_bias", &ModelConfig::mlp_bias, false), detail::partial_rotary_field(0.5),
                               detail::rotary_dim_field);

    static constexpr auto aliases =
        detail::join_aliases(detail::gguf_frame, detail::gguf_qkv, detail::gguf_second_norm, detail::gguf_norm_biases,
                             std::array{
                                 NameAlias{"blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight"},
                                 NameAlias{"blk.{}.ffn_up.bias", "model.layers.{}.mlp.up_proj.bias"},
                                 NameAlias{"blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight"},
                                 NameAlias{"blk.{}.ffn_down.bias", "model.layers.{}.mlp.down_proj.bias"},
                             });

    static constexpr detail::LlamaLayout layout{.prefix = "Nemotron",
                                                .norm_suffix = "LayerNorm1P",
                                                .attention_suffix = "SdpaAttention",
                                                .norm = NormKind::layer_offset,
                                                .has_norm_bias = true,
                                                .has_gate = false,
                                                .has_rotary_dim = true};

    /// attention_bias covers all four projections. Scaled positions are those of transformers 5: 4.57 knows none.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        if (auto const derived = detail::derive_rotary_dim(config, "partial_rotary_factor"); !derived) return derived;
        config.attention_out_bias = config.attention_bias;
        detail::leave_out_windows(config);
        return {};
    }
};

static_assert(ModelArchitecture<Nemotron>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
