// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/config.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The sizes of a decoder in the order in which model cards list them.
struct DecoderSizes {
    std::int64_t vocab_size;
    std::int64_t hidden_size;
    std::int64_t intermediate_size;
    std::int64_t layers;
    std::int64_t heads;
    std::int64_t kv_heads;
    std::int64_t head_dim;
    std::int64_t max_positions;
};

/// A decoder with rotary positions; families add what they have beyond it.
[[nodiscard]] constexpr ModelConfig decoder_preset(char const* model_type, char const* name, Dtype dtype,
                                                   DecoderSizes const& sizes, double rope_theta, double norm_epsilon) {
    ModelConfig config;
    config.model_type = model_type;
    config.name = name;
    config.dtype = dtype;
    config.vocab_size = sizes.vocab_size;
    config.hidden_size = sizes.hidden_size;
    config.intermediate_size = sizes.intermediate_size;
    config.layers = sizes.layers;
    config.heads = sizes.heads;
    config.kv_heads = sizes.kv_heads;
    config.head_dim = sizes.head_dim;
    config.max_positions = sizes.max_positions;
    config.rope.theta = rope_theta;
    config.norm_epsilon = norm_epsilon;
    return config;
}

[[nodiscard]] constexpr ModelConfig llama_preset(char const* name, Dtype dtype, DecoderSizes const& sizes,
                                                 double rope_theta = 10000.0) {
    return decoder_preset("llama", name, dtype, sizes, rope_theta, 1e-5);
}

/// Llama 3.1 and later: rope stretched by `factor` from the 8192 positions of Llama 3.
[[nodiscard]] constexpr ModelConfig llama_31_preset(char const* name, DecoderSizes const& sizes,
                                                    double factor = 8.0) {
    auto config = llama_preset(name, Dtype::bf16, sizes, 500000.0);
    config.rope.kind = RopeKind::llama3;
    config.rope.factor = factor;
    config.rope.original_max_positions = 8192;
    return config;
}

[[nodiscard]] constexpr ModelConfig mistral_preset(char const* name, DecoderSizes const& sizes, double rope_theta,
                                                   std::int64_t window = 0) {
    auto config = decoder_preset("mistral", name, Dtype::bf16, sizes, rope_theta, 1e-5);
    config.sliding_window = window;
    return config;
}

[[nodiscard]] constexpr ModelConfig mixtral_preset(char const* name, DecoderSizes const& sizes) {
    auto config = decoder_preset("mixtral", name, Dtype::bf16, sizes, 1000000.0, 1e-5);
    config.experts = 8;
    config.experts_per_token = 2;
    return config;
}

[[nodiscard]] constexpr ModelConfig tied(ModelConfig config) {
    config.tie_word_embeddings = true;
    return config;
}

}  // namespace detail

/// Published models as constants: the values of their config.json on the Hugging Face hub.
namespace presets {

inline constexpr auto llama_2_7b =
    detail::llama_preset("Llama-2-7B", Dtype::f16, {32000, 4096, 11008, 32, 32, 32, 128, 4096});
inline constexpr auto llama_2_13b =
    detail::llama_preset("Llama-2-13B", Dtype::f16, {32000, 5120, 13824, 40, 40, 40, 128, 4096});
inline constexpr auto llama_2_70b =
    detail::llama_preset("Llama-2-70B", Dtype::f16, {32000, 8192, 28672, 80, 64, 8, 128, 4096});
inline constexpr auto llama_3_8b =
    detail::llama_preset("Llama-3-8B", Dtype::bf16, {128256, 4096, 14336, 32, 32, 8, 128, 8192}, 500000.0);
inline constexpr auto llama_3_70b =
    detail::llama_preset("Llama-3-70B", Dtype::bf16, {128256, 8192, 28672, 80, 64, 8, 128, 8192}, 500000.0);
inline constexpr auto llama_3_1_8b =
    detail::llama_31_preset("Llama-3.1-8B", {128256, 4096, 14336, 32, 32, 8, 128, 131072});
inline constexpr auto llama_3_1_70b =
    detail::llama_31_preset("Llama-3.1-70B", {128256, 8192, 28672, 80, 64, 8, 128, 131072});
inline constexpr auto llama_3_1_405b =
    detail::llama_31_preset("Llama-3.1-405B", {128256, 16384, 53248, 126, 128, 8, 128, 131072});
inline constexpr auto llama_3_2_1b =
    detail::tied(detail::llama_31_preset("Llama-3.2-1B", {128256, 2048, 8192, 16, 32, 8, 64, 131072}, 32.0));
inline constexpr auto llama_3_2_3b =
    detail::tied(detail::llama_31_preset("Llama-3.2-3B", {128256, 3072, 8192, 28, 24, 8, 128, 131072}, 32.0));
inline constexpr auto tinyllama_1_1b =
    detail::llama_preset("TinyLlama-1.1B", Dtype::f32, {32000, 2048, 5632, 22, 32, 4, 64, 2048});
inline constexpr auto smollm2_135m =
    detail::tied(detail::llama_preset("SmolLM2-135M", Dtype::bf16, {49152, 576, 1536, 30, 9, 3, 64, 8192}, 100000.0));
inline constexpr auto smollm2_1_7b = detail::tied(
    detail::llama_preset("SmolLM2-1.7B", Dtype::bf16, {49152, 2048, 8192, 24, 32, 32, 64, 8192}, 130000.0));
inline constexpr auto yi_6b =
    detail::llama_preset("Yi-6B", Dtype::bf16, {64000, 4096, 11008, 32, 32, 4, 128, 4096}, 5000000.0);

inline constexpr auto mistral_7b =
    detail::mistral_preset("Mistral-7B-v0.1", {32000, 4096, 14336, 32, 32, 8, 128, 32768}, 10000.0, 4096);
inline constexpr auto mistral_7b_v0_3 =
    detail::mistral_preset("Mistral-7B-v0.3", {32768, 4096, 14336, 32, 32, 8, 128, 32768}, 1000000.0);
inline constexpr auto mistral_nemo_12b =
    detail::mistral_preset("Mistral-Nemo-12B", {131072, 5120, 14336, 40, 32, 8, 128, 131072}, 1000000.0);
inline constexpr auto mixtral_8x7b =
    detail::mixtral_preset("Mixtral-8x7B", {32000, 4096, 14336, 32, 32, 8, 128, 32768});
inline constexpr auto mixtral_8x22b =
    detail::mixtral_preset("Mixtral-8x22B", {32000, 6144, 16384, 56, 48, 8, 128, 65536});

}  // namespace presets

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
