// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Command R: layer norms without biases, attention and MLP side by side, neighbours of a head turn together. Command R+ normalises
/// queries and keys, each head with a weight of its own.
///
/// Source  transformers 4.57 models/cohere/modeling_cohere.py
struct Cohere : detail::DenseDecoder<Cohere> {
    static constexpr std::string_view name = "cohere";
    static constexpr std::string_view gguf_name = "command-r";

    static constexpr auto fields =
        detail::decoder_fields({.vocab_size = 256000,
                                .hidden_size = 8192,
                                .intermediate_size = 22528,
                                .layers = 40,
                                .heads = 64,
                                .max_positions = 8192,
                                .tie_word_embeddings = true,
                                .layer_norm_key = "layer_norm_eps",
                                .norm_epsilon = 1e-5},
                               flag_field("attention_bias", &ModelConfig::attention_bias, false),
                               flag_field("use_qk_norm", &ModelConfig::qk_norm, false),
                               real_field("logit_scale", &ModelConfig::logit_scale, 0.0625).in_gguf("logit_scale"));

    static constexpr auto aliases =
        detail::join_aliases(detail::gguf_frame, detail::gguf_qkv, detail::gguf_qk_norms, detail::gguf_gated_mlp);

    static constexpr detail::LlamaLayout layout{.prefix = "Cohere",
                                                .classes = detail::causal_classes,
                                                .norm_suffix = "LayerNorm",
                                                .norm = NormKind::layer,
                                                .norms = detail::one_norm,
                                                .is_parallel = true,
                                                .head_norms = {.have_own_weights = true}};

    /// Files do not state whether heads are normed.
    static void infer_from_gguf(GgufTensorNames const& names, ModelConfig& config) {
        config.qk_norm = names.has("blk.0.attn_q_norm.weight");
    }

    /// attention_bias covers all four projections; the MLP has none.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.interleaved_rope = true;
        detail::leave_out_windows(config);
        return {};
    }
};

static_assert(ModelArchitecture<Cohere>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
