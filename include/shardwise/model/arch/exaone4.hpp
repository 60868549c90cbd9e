// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// EXAONE 4: norms of what attention and MLP give, norms of query and key heads; where there are windows, only layers with one
/// turn.
///
/// Source  transformers 4.57 models/exaone4/modeling_exaone4.py
struct Exaone4 : detail::DenseDecoder<Exaone4> {
    static constexpr std::string_view name = "exaone4";
    static constexpr std::string_view gguf_name = "exaone4";

    static constexpr auto fields = detail::decoder_fields({.vocab_size = 102400,
                                                           .hidden_size = 4096,
                                                           .intermediate_size = 16384,
                                                           .layers = 32,
                                                           .heads = 32,
                                                           .kv_heads = 32,
                                                           .max_positions = 2048,
                                                           .has_nullable_kv_heads = false,
                                                           .norm_epsilon = 1e-5},
                                                          detail::window_field(4096).zero_in_gguf(),
                                                          natural_field("sliding_window_pattern", 4).or_letters());

    static constexpr auto aliases = detail::join_aliases(detail::gguf_ends, detail::gguf_qkv, detail::gguf_qk_norms,
                                                         detail::gguf_result_norms, detail::gguf_gated_mlp);

    static constexpr detail::LlamaLayout layout{.prefix = "Exaone4", .norms = detail::result_norms};

    /// No projection has a bias. Without layer_types, each sliding_window_pattern-th layer is full and the others slide.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_bias = config.attention_out_bias = config.mlp_bias = false;
        config.qk_norm = true;
        if (auto const checked = detail::complete_window_pattern(config, 4); !checked) return checked;
        if (config.sliding_window > 0) detail::turn_windows_only(config);
        return {};
    }
};

static_assert(ModelArchitecture<Exaone4>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
