// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
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

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 151936,
         .hidden_size = 2048,
         .intermediate_size = 6144,
         .layers = 24,
         .heads = 32,
         .kv_heads = 4,
         .max_positions = 32768,
         .has_nullable_kv_heads = false},
        natural_field("num_experts", &ModelConfig::experts, 128).named("num_local_experts").in_gguf("expert_count"),
        positive_field("num_experts_per_tok", &ModelConfig::experts_per_token, 8).in_gguf("expert_used_count"),
        positive_field("moe_intermediate_size", &ModelConfig::expert_intermediate_size, 768)
            .in_gguf("expert_feed_forward_length"),
        positive_field("decoder_sparse_step", &ModelConfig::decoder_sparse_step, 1),
        flag_field("norm_topk_prob", &ModelConfig::norm_expert_weights, false).in_gguf("expert_weights_norm"),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("use_sliding_window", &ModelConfig::use_sliding_window, false), detail::window_field(4096));

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
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
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
