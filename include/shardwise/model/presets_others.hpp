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

[[nodiscard]] constexpr ModelConfig command_r_preset() {
    auto config = tied(decoder_preset("cohere", "Command-R", Dtype::f16, {256000, 8192, 22528, 40, 64, 64, 128, 8192},
                                      8000000.0, 1e-5));
    config.logit_scale = 0.0625;
    return config;
}

[[nodiscard]] constexpr ModelConfig olmo3_preset(char const* name, DecoderSizes const& sizes) {
    auto config = decoder_preset("olmo3", name, Dtype::bf16, sizes, 500000.0, 1e-6);
    config.sliding_window = 4096;
    config.rope.kind = RopeKind::yarn;
    config.rope.factor = 8.0;
    config.rope.original_max_positions = 8192;
    config.rope.attention_factor = 1.2079441541679836;
    return config;
}

[[nodiscard]] constexpr ModelConfig exaone4_small_preset() {
    auto config = tied(decoder_preset("exaone4", "EXAONE-4.0-1.2B", Dtype::bf16,
                                      {102400, 2048, 4096, 30, 32, 8, 64, 65536}, 1000000.0, 1e-5));
    config.rope.kind = RopeKind::llama3;
    config.rope.factor = 16.0;
    config.rope.original_max_positions = 8192;
    return config;
}

[[nodiscard]] constexpr ModelConfig half_turned(ModelConfig config) {
    config.rope.partial_rotary_factor = 0.5;
    return config;
}

[[nodiscard]] constexpr ModelConfig glm_4_preset() {
    auto config = half_turned(decoder_preset("glm4", "GLM-4-9B-0414", Dtype::bf16,
                                             {151552, 4096, 13696, 40, 32, 2, 128, 32768}, 10000.0, 1e-5));
    config.attention_bias = true;
    return config;
}

[[nodiscard]] constexpr ModelConfig minitron_preset() {
    auto config = half_turned(decoder_preset("nemotron", "Minitron-4B", Dtype::bf16,
                                             {256000, 3072, 9216, 32, 24, 8, 128, 4096}, 10000.0, 1e-5));
    config.activation = ActivationKind::relu_squared;
    return config;
}

[[nodiscard]] constexpr ModelConfig glm_45_preset(char const* name, DecoderSizes const& sizes, std::int64_t experts,
                                                  std::int64_t expert_width) {
    auto config = half_turned(decoder_preset("glm4_moe", name, Dtype::bf16, sizes, 1000000.0, 1e-5));
    config.experts = experts;
    config.experts_per_token = 8;
    config.expert_intermediate_size = expert_width;
    config.expert_groups = config.kept_expert_groups = 1;
    config.attention_bias = true;
    return config;
}

[[nodiscard]] constexpr ModelConfig glm_45_large_preset() {
    auto config = glm_45_preset("GLM-4.5", {151552, 5120, 12288, 92, 96, 8, 128, 131072}, 160, 1536);
    config.own.set("first_k_dense_replace", 3);
    config.routed_scale = 2.5;
    config.qk_norm = true;
    return config;
}

[[nodiscard]] constexpr ModelConfig minimax_m2_preset() {
    auto config = decoder_preset("minimax_m2", "MiniMax-M2", Dtype::bf16, {200064, 3072, 1536, 62, 48, 8, 128, 196608},
                                 5000000.0, 1e-6);
    config.experts = 256;
    config.experts_per_token = 8;
    config.rotary_dim = 64;
    // Published in fp8: quantization_config of its config.json.
    config.quant = QuantScheme::fp8_blocks();
    return config;
}

}  // namespace detail

namespace presets {

inline constexpr auto granite_3_3_2b =
    detail::granite_preset("Granite-3.3-2B", {49159, 2048, 8192, 40, 32, 8, 64, 131072}, 0.015625, 8.0);
inline constexpr auto granite_3_3_8b =
    detail::granite_preset("Granite-3.3-8B", {49159, 4096, 12800, 40, 32, 8, 128, 131072}, 0.0078125, 16.0);

inline constexpr auto command_r = detail::command_r_preset();
inline constexpr auto olmo_2_7b = detail::decoder_preset("olmo2", "OLMo-2-7B", Dtype::f32,
                                                         {100352, 4096, 11008, 32, 32, 32, 128, 4096}, 500000.0, 1e-6);
inline constexpr auto olmo_3_7b = detail::olmo3_preset("Olmo-3-7B", {100278, 4096, 11008, 32, 32, 32, 128, 65536});
inline constexpr auto exaone_4_0_1_2b = detail::exaone4_small_preset();

inline constexpr auto glm_4_9b = detail::glm_4_preset();
inline constexpr auto minitron_4b = detail::minitron_preset();
inline constexpr auto minimax_m2 = detail::minimax_m2_preset();
inline constexpr auto glm_4_5_air =
    detail::glm_45_preset("GLM-4.5-Air", {151552, 4096, 10944, 46, 96, 8, 128, 131072}, 128, 1408);
inline constexpr auto glm_4_5 = detail::glm_45_large_preset();

}  // namespace presets

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
