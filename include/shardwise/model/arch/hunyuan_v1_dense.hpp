// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Hunyuan 0.5B to 7B: norms of each query and key head after rotation.
///
/// Source  transformers 4.57 models/hunyuan_v1_dense/modeling_hunyuan_v1_dense.py
struct HunYuanDenseV1 : detail::DenseDecoder<HunYuanDenseV1> {
    static constexpr std::string_view name = "hunyuan_v1_dense";
    static constexpr std::string_view gguf_name = "hunyuan-dense";

    static constexpr auto fields =
        detail::decoder_fields({.vocab_size = 290943,
                                .hidden_size = 4096,
                                .intermediate_size = 11008,
                                .layers = 32,
                                .heads = 32,
                                .max_positions = 2048,
                                .norm_epsilon = 1e-5},
                               flag_field("attention_bias", &ModelConfig::attention_bias, false));

    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_llama,
        std::array{NameAlias{"blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.query_layernorm.weight"},
                   NameAlias{"blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.key_layernorm.weight"}});

    static constexpr detail::LlamaLayout layout{
        .prefix = "HunYuanDenseV1",
        .classes = detail::text_label_classes,
        .head_norms = {.query = "query_layernorm", .key = "key_layernorm", .follow_rope = true}};

    /// attention_bias covers all four projections. Published configs scale positions by rope_scaling's alpha, which stretches theta
    /// whatever the sequence; other families have no such number.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.qk_norm = true;
        config.rope.has_alpha = config.rope.alpha > 0.0;
        return {};
    }
};

static_assert(ModelArchitecture<HunYuanDenseV1>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
