// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// ERNIE 4.5 without experts: llama whose neighbours in a head turn together.
///
/// Source  transformers 4.57 models/ernie4_5/modeling_ernie4_5.py
struct Ernie45 : detail::DenseDecoder<Ernie45> {
    static constexpr std::string_view name = "ernie4_5";
    static constexpr std::string_view gguf_name = "ernie4_5";

    static constexpr auto fields = detail::decoder_fields({.vocab_size = 103424,
                                                           .hidden_size = 1024,
                                                           .intermediate_size = 3072,
                                                           .layers = 18,
                                                           .heads = 16,
                                                           .kv_heads = 2,
                                                           .head_dim = 128,
                                                           .max_positions = 131072,
                                                           .tie_word_embeddings = true,
                                                           .norm_epsilon = 1e-5,
                                                           .rope_theta = 500000.0},
                                                          flag_field("use_bias", &ModelConfig::attention_bias, false));

    static constexpr auto aliases = detail::gguf_llama;

    static constexpr detail::LlamaLayout layout{.prefix = "Ernie4_5", .classes = detail::causal_classes};

    /// use_bias covers every linear layer of a block. Published configs name the class of their own code.
    static constexpr Result<> complete(ModelConfig& config) {
        if (config.model_class.view() == "Ernie4_5_ForCausalLM") config.model_class = "Ernie4_5ForCausalLM";
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_out_bias = config.mlp_bias = config.attention_bias;
        config.interleaved_rope = true;
        return {};
    }
};

static_assert(ModelArchitecture<Ernie45>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
