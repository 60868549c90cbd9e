// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Llama 1 to 3.x and models that publish under its model_type (Yi, SmolLM).
///
/// Source  transformers 4.57 models/llama/modeling_llama.py
struct Llama : detail::DenseDecoder<Llama> {
    static constexpr std::string_view name = "llama";
    static constexpr std::string_view gguf_name = "llama";
    /// A llava's text_config is one where it names no model_type.
    static constexpr std::string_view text_part_of = "llava";
    static constexpr GgufForm gguf_form{.permutes_rope_rows = true};

    static constexpr auto fields =
        detail::decoder_fields({.vocab_size = 32000,
                                .hidden_size = 4096,
                                .intermediate_size = 11008,
                                .layers = 32,
                                .heads = 32,
                                .max_positions = 2048},
                               flag_field("attention_bias", &ModelConfig::attention_bias, false),
                               flag_field("mlp_bias", &ModelConfig::mlp_bias, false));

    static constexpr auto aliases = detail::gguf_llama;

    static constexpr detail::LlamaLayout layout{.prefix = "Llama"};

    /// attention_bias covers all four projections; there are no windows.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        detail::leave_out_windows(config);
        return {};
    }
};

static_assert(ModelArchitecture<Llama>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
