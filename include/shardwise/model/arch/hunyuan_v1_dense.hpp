// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Hunyuan 0.5B to 7B: norms of each query and key head after rotation.
///
/// Source  transformers 4.57 models/hunyuan_v1_dense/modeling_hunyuan_v1_dense.py
struct HunYuanDenseV1 {
    static constexpr std::string_view name = "hunyuan_v1_dense";
    static constexpr std::string_view gguf_name = "hunyuan-dense";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 290943).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 4096).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 11008).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 32).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 32).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 0).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 0).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 2048).in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_llama,
        std::array{NameAlias{"blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.query_layernorm.weight"},
                   NameAlias{"blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.key_layernorm.weight"}});

    static constexpr detail::LlamaLayout layout{
        .prefix = "HunYuanDenseV1",
        .head_norms = {.query = "query_layernorm", .key = "key_layernorm", .follow_rope = true}};

    /// attention_bias covers all four projections. Published configs scale positions by rope_scaling's alpha, which stretches theta
    /// whatever the sequence; other families have no such number.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::check_class(config, {"HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Model",
                                                              "HunYuanDenseV1ForSequenceClassification"});
            !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.qk_norm = true;
        config.rope.has_alpha = config.rope.alpha > 0.0;
        return {};
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::dense_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<HunYuanDenseV1>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
