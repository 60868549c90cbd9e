// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Qwen2 and Qwen2.5.
///
/// Source  transformers 4.57 models/qwen2/modeling_qwen2.py
struct Qwen2 : detail::DenseDecoder<Qwen2> {
    static constexpr std::string_view name = "qwen2";
    static constexpr std::string_view gguf_name = "qwen2";

    static constexpr auto fields =
        detail::decoder_fields({.vocab_size = 151936,
                                .hidden_size = 4096,
                                .intermediate_size = 22016,
                                .layers = 32,
                                .heads = 32,
                                .kv_heads = 32,
                                .max_positions = 32768},
                               flag_field("use_sliding_window", &ModelConfig::use_sliding_window, false),
                               detail::window_field(4096), natural_field("max_window_layers", 28));

    static constexpr auto aliases = detail::gguf_llama;

    static constexpr detail::LlamaLayout layout{.prefix = "Qwen2"};

    /// q, k and v have biases, o has none; from max_window_layers on layers slide where windows are used.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_bias = true;
        config.attention_out_bias = config.mlp_bias = false;
        if (!config.use_sliding_window) config.sliding_window = 0;
        auto const first = config.own["max_window_layers"];
        return detail::complete_windows(config, [&](std::int64_t layer) { return layer >= first; });
    }
};

static_assert(ModelArchitecture<Qwen2>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
