// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Seed-OSS 36B: llama with biases of queries, keys and values.
///
/// Source  transformers 4.57 models/seed_oss/modeling_seed_oss.py
struct SeedOss : detail::DenseDecoder<SeedOss> {
    static constexpr std::string_view name = "seed_oss";
    static constexpr std::string_view gguf_name = "seed_oss";

    static constexpr auto fields =
        detail::decoder_fields({.vocab_size = 155136,
                                .hidden_size = 4096,
                                .intermediate_size = 27648,
                                .layers = 64,
                                .heads = 80,
                                .kv_heads = 8,
                                .head_dim = 128,
                                .max_positions = 524288},
                               flag_field("attention_bias", &ModelConfig::attention_bias, true),
                               flag_field("attention_out_bias", &ModelConfig::attention_out_bias, false),
                               flag_field("mlp_bias", &ModelConfig::mlp_bias, false));

    /// llama.cpp calls the norm before the MLP by its name in the checkpoint.
    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_frame, detail::gguf_qkv, detail::gguf_gated_mlp,
        std::array{NameAlias{"blk.{}.post_attention_norm.weight", "model.layers.{}.post_attention_layernorm.weight"}});

    static constexpr detail::LlamaLayout layout{.prefix = "SeedOss"};

    static constexpr Result<> complete(ModelConfig& config) { return detail::complete_decoder(config, layout); }
};

static_assert(ModelArchitecture<SeedOss>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
