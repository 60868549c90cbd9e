// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// SmolLM3: llama whose every fourth layer does not turn its queries and keys.
///
/// Source  transformers 4.57 models/smollm3/modeling_smollm3.py; llama.cpp 0c1e570, src/models/smollm3.cpp, takes the fourth
///         layers for granted
struct SmolLM3 : detail::DenseDecoder<SmolLM3> {
    static constexpr std::string_view name = "smollm3";
    static constexpr std::string_view gguf_name = "smollm3";
    static constexpr GgufForm gguf_form{.permutes_rope_rows = true};

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 128256,
         .hidden_size = 2048,
         .intermediate_size = 11008,
         .layers = 36,
         .heads = 16,
         .kv_heads = 4,
         .max_positions = 32768,
         .tie_word_embeddings = true,
         .rope_theta = 2000000.0},
        flag_field("use_sliding_window", &ModelConfig::use_sliding_window, false), detail::window_field(0),
        positive_field("no_rope_layer_interval", &ModelConfig::rope_free_interval, 4),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("mlp_bias", &ModelConfig::mlp_bias, false));

    static constexpr auto aliases = detail::gguf_llama;

    static constexpr detail::LlamaLayout layout{.prefix = "SmolLM3"};

    /// attention_bias covers all four projections; the layers that slide, where windows are used, are those that do not turn.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        if (auto const checked = detail::complete_rope_free_layers(config); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        // layer_types alone say it where they are there.
        if (!config.use_sliding_window && config.layer_types_count == 0) config.sliding_window = 0;
        return detail::complete_windows(config,
                                        [&](std::int64_t layer) { return config.rope_free_layers.contains(layer); });
    }
};

static_assert(ModelArchitecture<SmolLM3>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
