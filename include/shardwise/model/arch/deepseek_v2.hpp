// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/deepseek_layout.hpp>
#include <shardwise/model/arch/detail/deepseek_names.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// DeepSeek-V2, V2-Lite (whose queries have no low rank) and V2.5.
///
/// Under yarn scores grow by mscale_all_dim, as in the publisher's own code, in llama.cpp and in transformers 5; transformers 4.57
/// leaves that out.
///
/// Source  transformers 4.57 models/deepseek_v2/modeling_deepseek_v2.py; 5.23, the same file (yarn_apply_mscale)
struct DeepseekV2 {
    static constexpr std::string_view name = "deepseek_v2";
    static constexpr std::string_view gguf_name = "deepseek2";

    static constexpr std::array<std::string_view, 2> choices{"greedy", "group_limited_greedy"};

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 32000).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 4096).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 11008).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 32).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 32).in_gguf("attention.head_count"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 2048).in_gguf("context_length"),
        optional_field("q_lora_rank", &ModelConfig::q_lora_rank, 1536).in_gguf("attention.q_lora_rank").zero_in_gguf(),
        positive_field("kv_lora_rank", &ModelConfig::kv_lora_rank, 512).in_gguf("attention.kv_lora_rank"),
        positive_field("qk_nope_head_dim", &ModelConfig::qk_nope_head_dim, 128),
        positive_field("qk_rope_head_dim", &ModelConfig::qk_rope_head_dim, 64).in_gguf("rope.dimension_count"),
        positive_field("v_head_dim", &ModelConfig::v_head_dim, 128).in_gguf("attention.value_length_mla"),
        positive_field("n_routed_experts", &ModelConfig::experts, 64).named("num_experts").in_gguf("expert_count"),
        optional_field("num_experts_per_tok", &ModelConfig::experts_per_token, 0).in_gguf("expert_used_count"),
        optional_field("n_shared_experts", 2).in_gguf("expert_shared_count").zero_in_gguf(),
        positive_field("moe_intermediate_size", &ModelConfig::expert_intermediate_size, 1407)
            .in_gguf("expert_feed_forward_length"),
        natural_field("first_k_dense_replace", 0).in_gguf("leading_dense_block_count"),
        choice_field("topk_method", choices),
        natural_field("n_group", &ModelConfig::expert_groups, 0).in_gguf("expert_group_count"),
        natural_field("topk_group", &ModelConfig::kept_expert_groups, 0).in_gguf("expert_group_used_count"),
        real_field("routed_scaling_factor", &ModelConfig::routed_scale, 1.0).in_gguf("expert_weights_scale"),
        flag_field("norm_topk_prob", &ModelConfig::norm_expert_weights, false).in_gguf("expert_weights_norm"),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("mlp_bias", &ModelConfig::mlp_bias, false),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases = detail::gguf_deepseek;

    static constexpr std::array gguf_defaults{
        GgufDefault(
            "topk_method", [](ModelConfig& config) { config.own.set("topk_method", config.expert_groups > 1 ? 1 : 0); },
            "llama.cpp 0c1e570, src/llama-graph.cpp: build_moe_ffn chooses by groups where there are several"),
    };

    static constexpr detail::DeepseekLayout layout{.common = {.prefix = "DeepseekV2"},
                                                   .router_class = "DeepseekV2MoEGate"};

    /// A null q_lora_rank means one projection for the queries; a null n_shared_experts none. The rotary embedding is
    /// qk_rope_head_dim wide whatever head_dim says. The router reads no norm_topk_prob.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, "DeepseekV2", detail::text_label_classes); !known)
            return known;
        config.head_dim = 0;
        config.interleaved_rope = true;
        config.norm_expert_weights = false;
        if (config.own["topk_method"] == 0) config.expert_groups = config.kept_expert_groups = 0;
        return detail::complete_deepseek(config);
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::deepseek_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::deepseek_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<DeepseekV2>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
