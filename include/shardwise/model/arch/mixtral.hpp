// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/arch/detail/sparse_mlp.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Mixtral 8x7B and 8x22B: every layer has experts.
///
/// Source  transformers 4.57 models/mixtral/modeling_mixtral.py
struct Mixtral {
    static constexpr std::string_view name = "mixtral";
    static constexpr std::string_view gguf_name = "llama";
    static constexpr GgufForm gguf_form{.permutes_rope_rows = true};
    /// llama.cpp writes it as "llama"; only it has experts.
    static constexpr std::string_view gguf_marker = "llama.expert_count";

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 32000,
         .hidden_size = 4096,
         .intermediate_size = 14336,
         .layers = 32,
         .heads = 32,
         .kv_heads = 8,
         .max_positions = 131072,
         .norm_epsilon = 1e-5,
         .rope_theta = 1000000.0},
        positive_field("num_local_experts", &ModelConfig::experts, 8).named("num_experts").in_gguf("expert_count"),
        positive_field("num_experts_per_tok", &ModelConfig::experts_per_token, 2).in_gguf("expert_used_count"),
        detail::window_field(0));

    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_frame, detail::gguf_qkv, detail::gguf_second_norm,
        std::array{
            NameAlias{"blk.{}.ffn_gate_inp.weight", "model.layers.{}.block_sparse_moe.gate.weight"},
            NameAlias{"blk.{}.ffn_gate_exps.weight", "model.layers.{}.block_sparse_moe.experts.*.w1.weight"},
            NameAlias{"blk.{}.ffn_down_exps.weight", "model.layers.{}.block_sparse_moe.experts.*.w2.weight"},
            NameAlias{"blk.{}.ffn_up_exps.weight", "model.layers.{}.block_sparse_moe.experts.*.w3.weight"},
            NameAlias{"blk.{}.ffn_gate.{}.weight", "model.layers.{}.block_sparse_moe.experts.{}.w1.weight"},
            NameAlias{"blk.{}.ffn_down.{}.weight", "model.layers.{}.block_sparse_moe.experts.{}.w2.weight"},
            NameAlias{"blk.{}.ffn_up.{}.weight", "model.layers.{}.block_sparse_moe.experts.{}.w3.weight"},
        });
    static constexpr auto ending_aliases = detail::endings_of_numbered_experts;

    static constexpr detail::LlamaLayout layout{.prefix = "Mixtral", .mlp = "block_sparse_moe"};

    /// No projection has a bias; intermediate_size is an expert's; a window is for all layers. layer_types is not read.
    static constexpr Result<> complete(ModelConfig& config) {
        config.expert_intermediate_size = config.intermediate_size;
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        if (auto const checked = detail::check_experts(config); !checked) return checked;
        config.attention_bias = config.attention_out_bias = config.mlp_bias = false;
        config.dense_layers = {};
        config.layer_types_count = 0;
        return detail::complete_windows(config, [](std::int64_t) { return true; });
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        auto const moe = detail::add_numbered_experts(tree, config, layout);
        auto const attention = detail::add_attention(tree, config, layout);
        auto const layer = detail::add_decoder_layer(tree, config, layout, attention, moe);
        detail::finish_decoder(tree, config, layout, {numbered(0, config.layers, layer, ModuleRole::layer)},
                               config.head_dim);
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::decoder_program(config, layout, tree, [&](BlockBuilder& body, ValueId in) {
            return detail::append_experts(body, config, in, detail::numbered_experts);
        });
    }
};

static_assert(ModelArchitecture<Mixtral>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
