// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Apertus: norms of each head, an MLP without a gate whose activation, xIELU, has learned numbers.
///
/// Source  transformers 4.57 models/apertus/modeling_apertus.py
struct Apertus : detail::DenseDecoder<Apertus> {
    static constexpr std::string_view name = "apertus";
    static constexpr std::string_view gguf_name = "apertus";

    static constexpr auto fields =
        detail::decoder_fields({.vocab_size = 131072,
                                .hidden_size = 4096,
                                .intermediate_size = 14336,
                                .layers = 32,
                                .heads = 32,
                                .max_positions = 65536,
                                .norm_epsilon = 1e-5,
                                .rope_theta = 12000000.0,
                                .activation = ActivationKind::xielu},
                               flag_field("attention_bias", &ModelConfig::attention_bias, false));

    static constexpr auto aliases =
        detail::join_aliases(detail::gguf_ends, detail::gguf_qkv, detail::gguf_qk_norms,
                             std::array{
                                 NameAlias{"blk.{}.attn_norm.weight", "model.layers.{}.attention_layernorm.weight"},
                                 NameAlias{"blk.{}.ffn_norm.weight", "model.layers.{}.feedforward_layernorm.weight"},
                                 NameAlias{"blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight"},
                                 NameAlias{"blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight"},
                             });
    /// The converter writes the activation's numbers as metadata.
    static constexpr std::array gguf_numbers{
        NameAlias{"xielu.alpha_p", "model.layers.{}.mlp.act_fn.alpha_p"},
        NameAlias{"xielu.alpha_n", "model.layers.{}.mlp.act_fn.alpha_n"},
        NameAlias{"xielu.beta", "model.layers.{}.mlp.act_fn.beta"},
        NameAlias{"xielu.eps", "model.layers.{}.mlp.act_fn.eps"},
    };

    static constexpr std::array<std::string_view, 3> classes{"ForCausalLM", "Model", "ForTokenClassification"};
    static constexpr detail::LlamaLayout layout{.prefix = "Apertus",
                                                .classes = classes,
                                                .norms = {"attention_layernorm", {}, "feedforward_layernorm", {}},
                                                .has_gate = false};

    /// attention_bias covers all four projections; positions are llama3's unless the config says otherwise.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.qk_norm = true;
        auto& rope = config.rope;
        if (!rope.is_given && rope.kind == RopeKind::standard) {
            rope.kind = RopeKind::llama3;
            rope.factor = 8.0;
            rope.low_frequency_factor = 1.0;
            rope.high_frequency_factor = 4.0;
            rope.original_max_positions = 8192;
        }
        detail::leave_out_windows(config);
        return {};
    }
};

static_assert(ModelArchitecture<Apertus>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
