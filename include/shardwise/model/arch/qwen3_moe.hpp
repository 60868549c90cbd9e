// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/arch/detail/sparse_mlp.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Qwen3 with experts: 30B-A3B, 235B-A22B.
///
/// Source  transformers 4.57 models/qwen3_moe/modeling_qwen3_moe.py
struct Qwen3Moe {
    static constexpr std::string_view name = "qwen3_moe";
    static constexpr std::string_view gguf_name = "qwen3moe";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 151936).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 2048).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 6144).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 24).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 32).in_gguf("attention.head_count"),
        positive_field("num_key_value_heads", &ModelConfig::kv_heads, 4).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 0).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 32768).in_gguf("context_length"),
        natural_field("num_experts", &ModelConfig::experts, 128).named("num_local_experts").in_gguf("expert_count"),
        positive_field("num_experts_per_tok", &ModelConfig::experts_per_token, 8).in_gguf("expert_used_count"),
        positive_field("moe_intermediate_size", &ModelConfig::expert_intermediate_size, 768)
            .in_gguf("expert_feed_forward_length"),
        positive_field("decoder_sparse_step", &ModelConfig::decoder_sparse_step, 1),
        flag_field("norm_topk_prob", &ModelConfig::norm_expert_weights, false).in_gguf("expert_weights_norm"),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("use_sliding_window", &ModelConfig::use_sliding_window, false),
        natural_field("sliding_window", &ModelConfig::sliding_window, 4096).in_gguf("attention.sliding_window"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases =
        detail::join_aliases(detail::gguf_llama, detail::gguf_qk_norms, detail::gguf_experts);

    static constexpr std::array gguf_defaults{
        GgufDefault(
            "norm_topk_prob", [](ModelConfig& config) { config.norm_expert_weights = true; },
            "llama.cpp 0c1e570, src/models/qwen3moe.cpp: build_moe_ffn with norm_w"),
    };

    static constexpr detail::LlamaLayout layout{.prefix = "Qwen3Moe"};

    /// attention_bias covers all four projections; a window is for all layers. layer_types is not read.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked =
                detail::check_class(config, {"Qwen3MoeForCausalLM", "Qwen3MoeModel",
                                             "Qwen3MoeForSequenceClassification", "Qwen3MoeForTokenClassification"});
            !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.qk_norm = true;
        config.shared_expert_intermediate_size = 0;
        if (!config.use_sliding_window) config.sliding_window = 0;
        config.layer_types_count = 0;
        if (auto const checked = detail::complete_sparse_layers(config); !checked) return checked;
        return detail::complete_windows(config, [](std::int64_t) { return true; });
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::mixed_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::mixed_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Qwen3Moe>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
