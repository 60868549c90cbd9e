// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/arch/detail/sparse_mlp.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Qwen1.5-MoE and Qwen2-57B-A14B: routed experts and one gated shared expert.
///
/// Source  transformers 4.57 models/qwen2_moe/modeling_qwen2_moe.py
struct Qwen2Moe {
    static constexpr std::string_view name = "qwen2_moe";
    static constexpr std::string_view gguf_name = "qwen2moe";

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 151936,
         .hidden_size = 2048,
         .intermediate_size = 5632,
         .layers = 24,
         .heads = 16,
         .kv_heads = 16,
         .max_positions = 32768,
         .has_nullable_kv_heads = false},
        natural_field("num_experts", &ModelConfig::experts, 60).in_gguf("expert_count"),
        positive_field("num_experts_per_tok", &ModelConfig::experts_per_token, 4).in_gguf("expert_used_count"),
        positive_field("moe_intermediate_size", &ModelConfig::expert_intermediate_size, 1408)
            .in_gguf("expert_feed_forward_length"),
        positive_field("decoder_sparse_step", &ModelConfig::decoder_sparse_step, 1),
        flag_field("norm_topk_prob", &ModelConfig::norm_expert_weights, false).in_gguf("expert_weights_norm"),
        positive_field("shared_expert_intermediate_size", &ModelConfig::shared_expert_intermediate_size, 5632)
            .in_gguf("expert_shared_feed_forward_length"),
        flag_field("qkv_bias", &ModelConfig::attention_bias, true),
        flag_field("use_sliding_window", &ModelConfig::use_sliding_window, false), detail::window_field(4096),
        natural_field("max_window_layers", 28));

    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_llama, detail::gguf_experts,
        std::array{
            NameAlias{"blk.{}.ffn_gate_inp_shexp.weight", "model.layers.{}.mlp.shared_expert_gate.weight"},
            NameAlias{"blk.{}.ffn_gate_shexp.weight", "model.layers.{}.mlp.shared_expert.gate_proj.weight"},
            NameAlias{"blk.{}.ffn_up_shexp.weight", "model.layers.{}.mlp.shared_expert.up_proj.weight"},
            NameAlias{"blk.{}.ffn_down_shexp.weight", "model.layers.{}.mlp.shared_expert.down_proj.weight"},
        });

    static constexpr std::array gguf_defaults{
        GgufDefault(
            "norm_topk_prob", [](ModelConfig& config) { config.norm_expert_weights = false; },
            "llama.cpp 0c1e570, src/models/qwen2moe.cpp: build_moe_ffn without norm_w"),
    };

    static constexpr detail::LlamaLayout layout{
        .prefix = "Qwen2Moe", .attention_suffix = "SdpaAttention", .has_layer_rotary = true};

    /// qkv_bias is for q, k and v. Heads times head_dim must be the hidden size. layer_types counts where it
    /// is given, as in transformers 5, which writes it; else its rule: every second layer below max_window_layers slides.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        if (config.head_dim * config.heads != config.hidden_size) {
            return Error{ErrorCode::invalid_field}
                .at("head_dim")
                .because("times num_attention_heads is not hidden_size")
                .got(config.head_dim * config.heads)
                .expected(config.hidden_size);
        }
        config.attention_out_bias = config.mlp_bias = false;
        if (!config.use_sliding_window) config.sliding_window = 0;
        if (auto const checked = detail::complete_sparse_layers(config); !checked) return checked;
        auto const end = config.own["max_window_layers"];
        return detail::complete_windows(config, [&](std::int64_t layer) { return layer % 2 == 0 && layer < end; });
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::mixed_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::mixed_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Qwen2Moe>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
