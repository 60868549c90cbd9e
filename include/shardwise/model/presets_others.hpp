// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/presets_llama.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

[[nodiscard]] constexpr ModelConfig granite_preset(char const* name, DecoderSizes const& sizes, double score_scale,
                                                   double logit_scale) {
    auto config = tied(decoder_preset("granite", name, Dtype::bf16, sizes, 10000000.0, 1e-5));
    config.embedding_scale = 12.0;
    config.residual_scale = 0.22;
    config.score_scale = score_scale;
    config.logit_scale = logit_scale;
    return config;
}

}  // namespace detail

namespace presets {

inline constexpr auto granite_3_3_2b =
    detail::granite_preset("Granite-3.3-2B", {49159, 2048, 8192, 40, 32, 8, 64, 131072}, 0.015625, 8.0);
inline constexpr auto granite_3_3_8b =
    detail::granite_preset("Granite-3.3-8B", {49159, 4096, 12800, 40, 32, 8, 128, 131072}, 0.0078125, 16.0);

}  // namespace presets

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
