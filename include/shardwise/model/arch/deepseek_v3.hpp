// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/deepseek_layout.hpp>
#include <shardwise/model/arch/detail/deepseek_names.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// DeepSeek-V3 and R1, without the layers that predict further tokens: transformers does not build them.
///
/// Source  transformers 4.57 models/deepseek_v3/modeling_deepseek_v3.py
struct DeepseekV3 {
    static constexpr std::string_view name = "deepseek_v3";
    static constexpr std::string_view gguf_name = "deepseek2";
    /// Only this version's router has a correction.
    static constexpr std::string_view gguf_marker = "blk.{}.exp_probs_b.bias";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 129280).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 7168).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 18432).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 61).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 128).in_gguf("attention.head_count"),
        optional_field("head_dim", &ModelConfig::head_dim, 0),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 4096).in_gguf("context_length"),
        optional_field("q_lora_rank", &ModelConfig::q_lora_rank, 1536).in_gguf("attention.q_lora_rank").zero_in_gguf(),
        positive_field("kv_lora_rank", &ModelConfig::kv_lora_rank, 512).in_gguf("attention.kv_lora_rank"),
        positive_field("qk_nope_head_dim", &ModelConfig::qk_nope_head_dim, 128),
        positive_field("qk_rope_head_dim", &ModelConfig::qk_rope_head_dim, 64).in_gguf("rope.dimension_count"),
        positive_field("v_head_dim", &ModelConfig::v_head_dim, 128).in_gguf("attention.value_length_mla"),
        positive_field("n_routed_experts", &ModelConfig::experts, 256)
            .named("num_local_experts")
            .in_gguf("expert_count"),
        positive_field("num_experts_per_tok", &ModelConfig::experts_per_token, 8).in_gguf("expert_used_count"),
        positive_field("n_shared_experts", 1).in_gguf("expert_shared_count"),
        positive_field("moe_intermediate_size", &ModelConfig::expert_intermediate_size, 2048)
            .in_gguf("expert_feed_forward_length"),
        natural_field("first_k_dense_replace", 3).in_gguf("leading_dense_block_count"),
        natural_field("n_group", &ModelConfig::expert_groups, 8).in_gguf("expert_group_count"),
        natural_field("topk_group", &ModelConfig::kept_expert_groups, 4).in_gguf("expert_group_used_count"),
        real_field("routed_scaling_factor", &ModelConfig::routed_scale, 2.5).in_gguf("expert_weights_scale"),
        flag_field("norm_topk_prob", &ModelConfig::norm_expert_weights, true).in_gguf("expert_weights_norm"),
        flag_field("rope_interleave", &ModelConfig::interleaved_rope, true),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases = detail::gguf_deepseek;

    static constexpr std::array gguf_defaults{
        GgufDefault(
            "norm_topk_prob", [](ModelConfig& config) { config.norm_expert_weights = false; },
            "llama.cpp 0c1e570, src/llama-hparams.h: expert_weights_norm"),
        GgufDefault(
            "routed_scaling_factor", [](ModelConfig& config) { config.routed_scale = 1.0; },
            "llama.cpp 0c1e570, src/llama-graph.cpp: build_moe_ffn does not scale by 0"),
        GgufDefault(
            "first_k_dense_replace", [](ModelConfig& config) { config.own.set("first_k_dense_replace", 0); },
            "llama.cpp 0c1e570, src/llama-hparams.h: n_layer_dense_lead"),
        GgufDefault(
            "n_group", [](ModelConfig& config) { config.expert_groups = config.kept_expert_groups = 1; },
            "llama.cpp 0c1e570, src/llama-hparams.h: n_expert_groups"),
    };

    static constexpr detail::DeepseekLayout layout{
        .common = {.prefix = "DeepseekV3"}, .router_class = "DeepseekV3TopkRouter", .has_correction = true};

    /// A null q_lora_rank means one projection for the queries; head_dim, where given, changes the rotary embedding
    /// only.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, "DeepseekV3", detail::label_classes); !known) return known;
        config.mlp_bias = false;
        config.router_score = RouterScore::sigmoid;
        config.group_rank = GroupRank::best_two;
        return detail::complete_deepseek(config);
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::deepseek_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::deepseek_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<DeepseekV3>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
