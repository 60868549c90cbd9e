// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Command R: layer norms without biases, attention and MLP side by side, neighbours of a head turn together. Command R+ normalises
/// queries and keys, each head with a weight of its own.
///
/// Source  transformers 4.57 models/cohere/modeling_cohere.py
struct Cohere {
    static constexpr std::string_view name = "cohere";
    static constexpr std::string_view gguf_name = "command-r";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 256000).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 8192).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 22528).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 40).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 64).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 0).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 0).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 8192).in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("use_qk_norm", &ModelConfig::qk_norm, false),
        real_field("layer_norm_eps", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        real_field("logit_scale", &ModelConfig::logit_scale, 0.0625).in_gguf("logit_scale"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr auto aliases =
        detail::join_aliases(detail::gguf_frame, detail::gguf_qkv, detail::gguf_qk_norms, detail::gguf_gated_mlp);

    static constexpr detail::LlamaLayout layout{.prefix = "Cohere",
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
        if (auto const checked = detail::check_class(config, {"CohereForCausalLM", "CohereModel"}); !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.interleaved_rope = true;
        config.sliding_window = config.layer_types_count = 0;
        config.local_layers = {};
        return {};
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::dense_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Cohere>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
