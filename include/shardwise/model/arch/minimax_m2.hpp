// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/arch/detail/sparse_mlp.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// MiniMax-M2: mixtral's experts chosen by corrected sigmoids, norms over all heads together, heads of which a part rotates.
/// Modules have the names of the published files, as transformers 4 names mixtral's.
///
/// Source  transformers 5.23 models/minimax_m2/modeling_minimax_m2.py
struct MiniMaxM2 {
    static constexpr std::string_view name = "minimax_m2";
    static constexpr std::string_view gguf_name = "minimax-m2";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 200064).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 3072).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 1536)
            .in_gguf("expert_feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 62).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 48).in_gguf("attention.head_count"),
        positive_field("num_key_value_heads", &ModelConfig::kv_heads, 8).in_gguf("attention.head_count_kv"),
        positive_field("head_dim", &ModelConfig::head_dim, 128).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 196608).in_gguf("context_length"),
        positive_field("num_local_experts", &ModelConfig::experts, 256).named("num_experts").in_gguf("expert_count"),
        positive_field("num_experts_per_tok", &ModelConfig::experts_per_token, 8).in_gguf("expert_used_count"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 5000000.0).in_gguf("rope.freq_base"),
        rope_field("partial_rotary_factor", &RopeParameters::partial_rotary_factor, 1.0),
        natural_field("rotary_dim", &ModelConfig::rotary_dim, 0).in_gguf("rope.dimension_count"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_frame, detail::gguf_qkv, detail::gguf_qk_norms, detail::gguf_second_norm,
        std::array{
            NameAlias{"blk.{}.ffn_gate_inp.weight", "model.layers.{}.block_sparse_moe.gate.weight"},
            NameAlias{"blk.{}.exp_probs_b.bias", "model.layers.{}.block_sparse_moe.e_score_correction_bias"},
            NameAlias{"blk.{}.ffn_gate_exps.weight", "model.layers.{}.block_sparse_moe.experts.*.w1.weight"},
            NameAlias{"blk.{}.ffn_down_exps.weight", "model.layers.{}.block_sparse_moe.experts.*.w2.weight"},
            NameAlias{"blk.{}.ffn_up_exps.weight", "model.layers.{}.block_sparse_moe.experts.*.w3.weight"},
            NameAlias{"model.layers.{}.mlp.e_score_correction_bias",
                      "model.layers.{}.block_sparse_moe.e_score_correction_bias"},
        });
    static constexpr auto ending_aliases = detail::endings_of_numbered_experts;

    static constexpr detail::LlamaLayout layout{.prefix = "MiniMaxM2",
                                                .classes = detail::causal_classes,
                                                .has_rotary_dim = true,
                                                .mlp = "block_sparse_moe",
                                                .head_norms = {.are_wide = true}};
    static constexpr detail::SparseMlpNames experts = [] {
        auto names = detail::numbered_experts;
        names.correction = "block_sparse_moe.e_score_correction_bias";
        return names;
    }();

    /// No projection has a bias; intermediate_size is an expert's; the chosen weights are divided by their sum.
    static constexpr Result<> complete(ModelConfig& config) {
        config.expert_intermediate_size = config.intermediate_size;
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        if (auto const checked = detail::check_experts(config); !checked) return checked;
        if (auto const derived = detail::derive_rotary_dim(config, "partial_rotary_factor"); !derived) return derived;
        config.attention_bias = config.attention_out_bias = config.mlp_bias = false;
        config.qk_norm = config.norm_expert_weights = true;
        config.router_score = RouterScore::sigmoid;
        config.dense_layers = {};
        detail::leave_out_windows(config);
        return {};
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        auto const moe = detail::add_numbered_experts(tree, config, layout, true);
        auto const attention = detail::add_attention(tree, config, layout);
        auto const layer = detail::add_decoder_layer(tree, config, layout, attention, moe);
        detail::finish_decoder(tree, config, layout, {numbered(0, config.layers, layer, ModuleRole::layer)},
                               config.rotary_dim);
        return tree;
    }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::decoder_program(config, layout, tree, [&](BlockBuilder& body, ValueId in) {
            return detail::append_experts(body, config, in, experts);
        });
    }
};

static_assert(ModelArchitecture<MiniMaxM2>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
