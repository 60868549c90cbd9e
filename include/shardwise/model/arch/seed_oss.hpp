// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Seed-OSS 36B: llama with biases of queries, keys and values.
///
/// Source  transformers 4.57 models/seed_oss/modeling_seed_oss.py
struct SeedOss {
    static constexpr std::string_view name = "seed_oss";
    static constexpr std::string_view gguf_name = "seed_oss";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 155136).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 4096).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 27648).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 64).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 80).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 8).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 128).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 524288).in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        flag_field("attention_bias", &ModelConfig::attention_bias, true),
        flag_field("attention_out_bias", &ModelConfig::attention_out_bias, false),
        flag_field("mlp_bias", &ModelConfig::mlp_bias, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    /// llama.cpp calls the norm before the MLP by its name in the checkpoint.
    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_frame, detail::gguf_qkv, detail::gguf_gated_mlp,
        std::array{NameAlias{"blk.{}.post_attention_norm.weight", "model.layers.{}.post_attention_layernorm.weight"}});

    static constexpr detail::LlamaLayout layout{.prefix = "SeedOss"};

    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::check_class(config, {"SeedOssForCausalLM", "SeedOssModel",
                                                              "SeedOssForSequenceClassification",
                                                              "SeedOssForTokenClassification"});
            !checked)
            return checked;
        return detail::complete_heads(config);
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::dense_decoder_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::dense_decoder_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<SeedOss>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
