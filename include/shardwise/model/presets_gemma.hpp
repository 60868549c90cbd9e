// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/presets_llama.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Gemma 1; its config's hidden_act says "gelu".
[[nodiscard]] constexpr ModelConfig gemma_preset(char const* name, DecoderSizes const& sizes) {
    auto config = tied(decoder_preset("gemma", name, Dtype::bf16, sizes, 10000.0, 1e-6));
    config.activation = ActivationKind::gelu;
    return config;
}

/// Gemma 2. Its pretrained files are fp32, its instruction-tuned ones, which are what engines serve, bf16.
[[nodiscard]] constexpr ModelConfig gemma2_preset(char const* name, DecoderSizes const& sizes, double query_scale) {
    auto config = tied(decoder_preset("gemma2", name, Dtype::bf16, sizes, 10000.0, 1e-6));
    config.activation = ActivationKind::gelu_tanh;
    config.sliding_window = 4096;
    config.query_scale = query_scale;
    config.own.set_real("attn_logit_softcapping", 50.0);
    config.logit_softcap = 30.0;
    return config;
}

/// Gemma 3's text model; all but the smallest stretch the rope of full layers by 8.
[[nodiscard]] constexpr ModelConfig gemma3_preset(char const* name, DecoderSizes const& sizes, double query_scale,
                                                  std::int64_t window = 1024) {
    auto config = tied(decoder_preset("gemma3_text", name, Dtype::bf16, sizes, 1000000.0, 1e-6));
    config.activation = ActivationKind::gelu_tanh;
    config.sliding_window = window;
    config.query_scale = query_scale;
    config.rope.local_theta = 10000.0;
    if (window == 1024) {
        // These are published with a vision tower.
        config.is_text_part = true;
        config.rope.kind = RopeKind::linear;
        config.rope.factor = 8.0;
    }
    return config;
}

}  // namespace detail

namespace presets {

inline constexpr auto gemma_2b = detail::gemma_preset("Gemma-2B", {256000, 2048, 16384, 18, 8, 1, 256, 8192});
inline constexpr auto gemma_7b = detail::gemma_preset("Gemma-7B", {256000, 3072, 24576, 28, 16, 16, 256, 8192});
inline constexpr auto gemma_2_2b =
    detail::gemma2_preset("Gemma-2-2B", {256000, 2304, 9216, 26, 8, 4, 256, 8192}, 256.0);
inline constexpr auto gemma_2_9b =
    detail::gemma2_preset("Gemma-2-9B", {256000, 3584, 14336, 42, 16, 8, 256, 8192}, 256.0);
inline constexpr auto gemma_2_27b =
    detail::gemma2_preset("Gemma-2-27B", {256000, 4608, 36864, 46, 32, 16, 128, 8192}, 144.0);
inline constexpr auto gemma_3_1b =
    detail::gemma3_preset("Gemma-3-1B", {262144, 1152, 6912, 26, 4, 1, 256, 32768}, 256.0, 512);
inline constexpr auto gemma_3_4b =
    detail::gemma3_preset("Gemma-3-4B (text)", {262208, 2560, 10240, 34, 8, 4, 256, 131072}, 256.0);
inline constexpr auto gemma_3_12b =
    detail::gemma3_preset("Gemma-3-12B (text)", {262208, 3840, 15360, 48, 16, 8, 256, 131072}, 256.0);
inline constexpr auto gemma_3_27b =
    detail::gemma3_preset("Gemma-3-27B (text)", {262208, 5376, 21504, 62, 32, 16, 128, 131072}, 168.0);

}  // namespace presets

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
