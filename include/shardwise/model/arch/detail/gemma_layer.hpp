// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>

/// What the three gemma families share: norms that add one to their weight, embeddings scaled by sqrt(hidden_size).
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What every gemma completes: class and heads; attention_bias covers all four projections, the MLP has none, embeddings are scaled.
[[nodiscard]] constexpr Result<> complete_gemma(ModelConfig& config, LlamaLayout const& layout) {
    if (auto const checked = complete_decoder(config, layout); !checked) return checked;
    config.attention_out_bias = config.attention_bias;
    config.mlp_bias = false;
    config.embedding_scale = square_root(static_cast<double>(config.hidden_size));
    return {};
}

/// The scale of gemma's scores where a GGUF file does not state it: the width of a head, in the 27B models the hidden
/// size over the heads. llama.cpp tells those by their number of layers.
constexpr void assume_query_scale(ModelConfig& config, std::int64_t layers_of_27b) {
    bool const is_27b = config.layers == layers_of_27b && config.heads > 0;
    config.query_scale = static_cast<double>(is_27b ? config.hidden_size / config.heads : config.head_dim);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
