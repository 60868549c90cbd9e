// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Mistral 7B, Nemo and models that publish under its model_type.
///
/// Source  transformers 4.57 models/mistral/modeling_mistral.py
struct Mistral : detail::DenseDecoder<Mistral> {
    static constexpr std::string_view name = "mistral";
    /// llama.cpp writes it as "llama", which is read as that family: same names, same shapes.
    static constexpr std::string_view gguf_name = "";
    /// A mistral3's text_config is one where it names no model_type.
    static constexpr std::string_view text_part_of = "mistral3";

    static constexpr auto fields = detail::decoder_fields({.vocab_size = 32000,
                                                           .hidden_size = 4096,
                                                           .intermediate_size = 14336,
                                                           .layers = 32,
                                                           .heads = 32,
                                                           .kv_heads = 8,
                                                           .max_positions = 131072},
                                                          detail::window_field(4096));

    static constexpr auto aliases = detail::gguf_llama;

    static constexpr detail::LlamaLayout layout{.prefix = "Mistral"};

    /// No projection has a bias; all layers share the window; layer_types is not read.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_bias = config.attention_out_bias = config.mlp_bias = false;
        config.layer_types_count = 0;
        return detail::complete_windows(config, [](std::int64_t) { return true; });
    }
};

static_assert(ModelArchitecture<Mistral>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
