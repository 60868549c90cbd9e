// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/presets_llama.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

[[nodiscard]] constexpr ModelConfig smollm3_preset() {
    auto config = tied(decoder_preset("smollm3", "SmolLM3-3B", Dtype::bf16,
                                      {128256, 2048, 11008, 36, 16, 4, 128, 65536}, 5000000.0, 1e-6));
    config.rope_free_interval = 4;
    config.use_sliding_window = false;
    return config;
}

[[nodiscard]] constexpr ModelConfig stablelm_preset() {
    auto config = decoder_preset("stablelm", "StableLM-3B-4E1T", Dtype::bf16, {50304, 2560, 6912, 32, 32, 32, 80, 4096},
                                 10000.0, 1e-5);
    config.rope.partial_rotary_factor = 0.25;
    return config;
}

[[nodiscard]] constexpr ModelConfig starcoder2_preset() {
    auto config = tied(decoder_preset("starcoder2", "StarCoder2-3B", Dtype::f32,
                                      {49152, 3072, 12288, 30, 24, 2, 128, 16384}, 999999.4420358813, 1e-5));
    config.attention_bias = true;
    config.sliding_window = 4096;
    config.activation = ActivationKind::gelu_tanh;
    return config;
}

[[nodiscard]] constexpr ModelConfig seed_oss_preset() {
    auto config = decoder_preset("seed_oss", "Seed-OSS-36B", Dtype::bf16, {155136, 5120, 27648, 64, 80, 8, 128, 524288},
                                 10000000.0, 1e-6);
    config.attention_bias = true;
    return config;
}

[[nodiscard]] constexpr ModelConfig hunyuan_preset() {
    auto config = tied(decoder_preset("hunyuan_v1_dense", "Hunyuan-7B", Dtype::bf16,
                                      {128167, 4096, 14336, 32, 32, 8, 128, 262144}, 10000.0, 1e-5));
    config.rope.kind = RopeKind::dynamic;
    config.rope.alpha = 1000.0;
    config.rope.mscale = config.rope.mscale_all_dim = 1.0;
    return config;
}

[[nodiscard]] constexpr ModelConfig apertus_preset(char const* name, DecoderSizes const& sizes) {
    auto config = decoder_preset("apertus", name, Dtype::bf16, sizes, 12000000.0, 1e-5);
    config.activation = ActivationKind::xielu;
    config.rope.kind = RopeKind::llama3;
    config.rope.factor = 8.0;
    config.rope.original_max_positions = 8192;
    return config;
}

/// The text part of Llama 4 Maverick.
[[nodiscard]] constexpr ModelConfig llama_4_maverick_preset() {
    auto config = decoder_preset("llama4_text", "Llama-4-Maverick", Dtype::bf16,
                                 {202048, 5120, 16384, 48, 40, 8, 128, 1048576}, 500000.0, 1e-5);
    config.expert_intermediate_size = 8192;
    config.experts = 128;
    config.experts_per_token = 1;
    config.decoder_sparse_step = 2;
    config.rope_free_interval = 4;
    return config;
}

}  // namespace detail

namespace presets {

inline constexpr auto smollm3_3b = detail::smollm3_preset();
inline constexpr auto stablelm_3b = detail::stablelm_preset();
inline constexpr auto starcoder2_3b = detail::starcoder2_preset();
inline constexpr auto seed_oss_36b = detail::seed_oss_preset();
inline constexpr auto ernie_4_5_0_3b = detail::tied(detail::decoder_preset(
    "ernie4_5", "ERNIE-4.5-0.3B", Dtype::bf16, {103424, 1024, 3072, 18, 16, 2, 128, 131072}, 500000.0, 1e-5));
inline constexpr auto hunyuan_7b = detail::hunyuan_preset();
inline constexpr auto apertus_8b = detail::apertus_preset("Apertus-8B", {131072, 4096, 21504, 32, 32, 8, 128, 65536});
inline constexpr auto apertus_70b = detail::apertus_preset("Apertus-70B", {131072, 8192, 43008, 80, 64, 8, 128, 65536});
inline constexpr auto llama_4_maverick = detail::llama_4_maverick_preset();

}  // namespace presets

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
