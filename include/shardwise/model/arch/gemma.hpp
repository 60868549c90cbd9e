// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/gemma_layer.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Gemma 2B and 7B: heads of 256 whatever the hidden size, tied embeddings.
///
/// Source  transformers 4.57 models/gemma/modeling_gemma.py
struct Gemma : detail::DenseDecoder<Gemma> {
    static constexpr std::string_view name = "gemma";
    static constexpr std::string_view gguf_name = "gemma";

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 256000,
         .hidden_size = 3072,
         .intermediate_size = 24576,
         .layers = 28,
         .heads = 16,
         .kv_heads = 16,
         .head_dim = 256,
         .max_positions = 8192,
         .has_nullable_kv_heads = false,
         .has_nullable_head_dim = false,
         .tie_word_embeddings = true,
         .activation = ActivationKind::gelu_tanh},
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        refused_flag("use_bidirectional_attention", "lets tokens attend to later ones, which is not described"));

    static constexpr auto aliases = detail::gguf_llama;

    static constexpr detail::LlamaLayout layout{.prefix = "Gemma", .norm = NormKind::rms_offset};

    /// transformers 4.57 reads hidden_act and not hidden_activation.
    static constexpr Result<> complete(ModelConfig& config) {
        detail::leave_out_windows(config);
        return detail::complete_gemma(config, layout);
    }
};

static_assert(ModelArchitecture<Gemma>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
