// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/presets_llama.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// No published Qwen uses its window: use_sliding_window is false.
[[nodiscard]] constexpr ModelConfig windowless_preset(char const* model_type, char const* name,
                                                      DecoderSizes const& sizes) {
    auto config = decoder_preset(model_type, name, Dtype::bf16, sizes, 1000000.0, 1e-6);
    config.use_sliding_window = false;
    return config;
}

[[nodiscard]] constexpr ModelConfig qwen_preset(char const* model_type, char const* name, DecoderSizes const& sizes) {
    auto config = windowless_preset(model_type, name, sizes);
    config.own.set("max_window_layers", sizes.layers);
    return config;
}

/// A Qwen whose layers all have experts of this width.
[[nodiscard]] constexpr ModelConfig qwen_moe_preset(char const* model_type, char const* name, DecoderSizes const& sizes,
                                                    std::int64_t experts, std::int64_t experts_per_token,
                                                    std::int64_t expert_width) {
    auto config = windowless_preset(model_type, name, sizes);
    config.experts = experts;
    config.experts_per_token = experts_per_token;
    config.expert_intermediate_size = expert_width;
    return config;
}

[[nodiscard]] constexpr ModelConfig qwen15_moe_preset() {
    auto config =
        qwen_moe_preset("qwen2_moe", "Qwen1.5-MoE-A2.7B", {151936, 2048, 5632, 24, 16, 16, 128, 8192}, 60, 4, 1408);
    config.shared_expert_intermediate_size = 5632;
    config.attention_bias = true;
    config.norm_expert_weights = false;
    config.own.set("max_window_layers", 21);
    return config;
}

[[nodiscard]] constexpr ModelConfig qwen3_next_preset() {
    auto config = decoder_preset("qwen3_next", "Qwen3-Next-80B-A3B", Dtype::bf16,
                                 {151936, 2048, 5120, 48, 16, 2, 256, 262144}, 10000000.0, 1e-6);
    config.rope.partial_rotary_factor = 0.25;
    config.experts = 512;
    config.experts_per_token = 10;
    config.expert_intermediate_size = config.shared_expert_intermediate_size = 512;
    return config;
}

}  // namespace detail

namespace presets {

inline constexpr auto qwen2_5_0_5b =
    detail::tied(detail::qwen_preset("qwen2", "Qwen2.5-0.5B", {151936, 896, 4864, 24, 14, 2, 64, 32768}));
inline constexpr auto qwen2_5_1_5b =
    detail::tied(detail::qwen_preset("qwen2", "Qwen2.5-1.5B", {151936, 1536, 8960, 28, 12, 2, 128, 131072}));
inline constexpr auto qwen2_5_3b =
    detail::tied(detail::qwen_preset("qwen2", "Qwen2.5-3B", {151936, 2048, 11008, 36, 16, 2, 128, 32768}));
inline constexpr auto qwen2_5_7b =
    detail::qwen_preset("qwen2", "Qwen2.5-7B", {152064, 3584, 18944, 28, 28, 4, 128, 131072});
inline constexpr auto qwen2_5_14b =
    detail::qwen_preset("qwen2", "Qwen2.5-14B", {152064, 5120, 13824, 48, 40, 8, 128, 131072});
inline constexpr auto qwen2_5_32b =
    detail::qwen_preset("qwen2", "Qwen2.5-32B", {152064, 5120, 27648, 64, 40, 8, 128, 131072});
inline constexpr auto qwen2_5_72b =
    detail::qwen_preset("qwen2", "Qwen2.5-72B", {152064, 8192, 29568, 80, 64, 8, 128, 131072});

inline constexpr auto qwen3_0_6b =
    detail::tied(detail::qwen_preset("qwen3", "Qwen3-0.6B", {151936, 1024, 3072, 28, 16, 8, 128, 40960}));
inline constexpr auto qwen3_1_7b =
    detail::tied(detail::qwen_preset("qwen3", "Qwen3-1.7B", {151936, 2048, 6144, 28, 16, 8, 128, 40960}));
inline constexpr auto qwen3_4b =
    detail::tied(detail::qwen_preset("qwen3", "Qwen3-4B", {151936, 2560, 9728, 36, 32, 8, 128, 40960}));
inline constexpr auto qwen3_8b = detail::qwen_preset("qwen3", "Qwen3-8B", {151936, 4096, 12288, 36, 32, 8, 128, 40960});
inline constexpr auto qwen3_14b =
    detail::qwen_preset("qwen3", "Qwen3-14B", {151936, 5120, 17408, 40, 40, 8, 128, 40960});
inline constexpr auto qwen3_32b =
    detail::qwen_preset("qwen3", "Qwen3-32B", {151936, 5120, 25600, 64, 64, 8, 128, 40960});

inline constexpr auto qwen1_5_moe_a2_7b = detail::qwen15_moe_preset();
inline constexpr auto qwen3_30b_a3b =
    detail::qwen_moe_preset("qwen3_moe", "Qwen3-30B-A3B", {151936, 2048, 6144, 48, 32, 4, 128, 40960}, 128, 8, 768);
inline constexpr auto qwen3_235b_a22b =
    detail::qwen_moe_preset("qwen3_moe", "Qwen3-235B-A22B", {151936, 4096, 12288, 94, 64, 4, 128, 40960}, 128, 8, 1536);
inline constexpr auto qwen3_next_80b_a3b = detail::qwen3_next_preset();

}  // namespace presets

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
