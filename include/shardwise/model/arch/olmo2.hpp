// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// OLMo 2: norms of what attention and MLP give, and of the queries and keys of all heads together.
///
/// Source  transformers 4.57 models/olmo2/modeling_olmo2.py
struct Olmo2 : detail::DenseDecoder<Olmo2> {
    static constexpr std::string_view name = "olmo2";
    static constexpr std::string_view gguf_name = "olmo2";

    static constexpr auto fields =
        detail::decoder_fields({.vocab_size = 50304,
                                .hidden_size = 4096,
                                .intermediate_size = 11008,
                                .layers = 32,
                                .heads = 32,
                                .max_positions = 2048,
                                .norm_epsilon = 1e-5},
                               flag_field("attention_bias", &ModelConfig::attention_bias, false));

    static constexpr auto aliases = detail::join_aliases(detail::gguf_ends, detail::gguf_qkv, detail::gguf_qk_norms,
                                                         detail::gguf_result_norms, detail::gguf_gated_mlp);

    static constexpr detail::LlamaLayout layout{.prefix = "Olmo2",
                                                .classes = detail::causal_classes,
                                                .norms = detail::result_norms,
                                                .head_norms = {.are_wide = true}};

    /// attention_bias covers all four projections; the MLP has none.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.qk_norm = true;
        detail::leave_out_windows(config);
        return {};
    }
};

static_assert(ModelArchitecture<Olmo2>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
