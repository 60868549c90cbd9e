// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/presets_llama.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

[[nodiscard]] constexpr ModelConfig phi3_preset(char const* name, DecoderSizes const& sizes, double rope_theta,
                                                std::int64_t window) {
    auto config = decoder_preset("phi3", name, Dtype::bf16, sizes, rope_theta, 1e-5);
    config.sliding_window = window;
    return config;
}

[[nodiscard]] constexpr ModelConfig phi4_mini_preset() {
    auto config = tied(phi3_preset("Phi-4-mini", {200064, 3072, 8192, 32, 24, 8, 128, 131072}, 10000.0, 262144));
    config.rope.partial_rotary_factor = 0.75;
    return config;
}

/// gpt-oss as published: experts in MXFP4 (quantization_config of its config.json), the rest in bf16.
[[nodiscard]] constexpr ModelConfig gpt_oss_preset(char const* name, std::int64_t layers, std::int64_t experts) {
    auto config =
        decoder_preset("gpt_oss", name, Dtype::bf16, {201088, 2880, 2880, layers, 64, 8, 64, 131072}, 150000.0, 1e-5);
    config.quant = QuantScheme::mxfp4();
    config.experts = experts;
    config.experts_per_token = 4;
    config.sliding_window = 128;
    config.attention_bias = true;
    config.rope.kind = RopeKind::yarn;
    config.rope.factor = 32.0;
    config.rope.truncates = false;
    config.rope.original_max_positions = 4096;
    return config;
}

}  // namespace detail

namespace presets {

inline constexpr auto phi_3_mini =
    detail::phi3_preset("Phi-3-mini-4k", {32064, 3072, 8192, 32, 32, 32, 96, 4096}, 10000.0, 2047);
inline constexpr auto phi_3_medium =
    detail::phi3_preset("Phi-3-medium-4k", {32064, 5120, 17920, 40, 40, 10, 128, 4096}, 10000.0, 2047);
inline constexpr auto phi_4 = detail::phi3_preset("Phi-4", {100352, 5120, 17920, 40, 40, 10, 128, 16384}, 250000.0, 0);
inline constexpr auto phi_4_mini = detail::phi4_mini_preset();
inline constexpr auto gpt_oss_20b = detail::gpt_oss_preset("gpt-oss-20b", 24, 32);
inline constexpr auto gpt_oss_120b = detail::gpt_oss_preset("gpt-oss-120b", 36, 128);

}  // namespace presets

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
