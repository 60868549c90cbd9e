// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/literal.hpp>
#include <shardwise/model/field.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>

/// The rows of a field table that decoders share.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A family's defaults of the keys that decoders share. Those that most configuration classes agree on stand here.
struct DecoderDefaults {
    std::int64_t vocab_size = 0;
    std::int64_t hidden_size = 0;
    std::int64_t intermediate_size = 0;
    std::int64_t layers = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;  // num_key_value_heads; 0: as many as heads
    std::int64_t head_dim = 0;  // 0: hidden_size / heads
    std::int64_t max_positions = 0;
    /// False where the class does not derive a number that is null: null is an error then.
    bool has_nullable_kv_heads = true;
    bool has_nullable_head_dim = true;
    bool tie_word_embeddings = false;
    /// The key of the epsilon where the norms are layer norms; empty: rms_norm_eps.
    Literal layer_norm_key{};
    double norm_epsilon = 1e-6;
    double rope_theta = 10000.0;
    Literal activation_key = "hidden_act";
    ActivationKind activation = ActivationKind::silu;
};

/// The rows of a decoder without the usual one of head_dim: sizes, then the family's own rows, then what most tables end with.
template <std::same_as<Field>... Own>
[[nodiscard]] constexpr auto decoder_fields_without_head_dim(DecoderDefaults const& defaults, Own const&... own) {
    bool const has_layer_norms = !std::string_view(defaults.layer_norm_key).empty();
    auto const kv_heads = defaults.has_nullable_kv_heads ? FieldRule::optional : FieldRule::positive;
    return std::array{
        positive_field("vocab_size", &ModelConfig::vocab_size, defaults.vocab_size).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, defaults.hidden_size).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, defaults.intermediate_size)
            .in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, defaults.layers).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, defaults.heads).in_gguf("attention.head_count"),
        integer_field("num_key_value_heads", &ModelConfig::kv_heads, defaults.kv_heads, kv_heads)
            .in_gguf("attention.head_count_kv"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, defaults.max_positions)
            .in_gguf("context_length"),
        own...,
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, defaults.tie_word_embeddings),
        real_field(has_layer_norms ? defaults.layer_norm_key : "rms_norm_eps", &ModelConfig::norm_epsilon,
                   defaults.norm_epsilon)
            .in_gguf(has_layer_norms ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, defaults.rope_theta).in_gguf("rope.freq_base"),
        activation_field(defaults.activation_key, defaults.activation),
    };
}

/// The rows of a decoder with head_dim and, after the sizes, the family's own.
template <std::same_as<Field>... Own>
[[nodiscard]] constexpr auto decoder_fields(DecoderDefaults const& defaults, Own const&... own) {
    auto const rule = defaults.has_nullable_head_dim ? FieldRule::optional : FieldRule::positive;
    return decoder_fields_without_head_dim(
        defaults,
        integer_field("head_dim", &ModelConfig::head_dim, defaults.head_dim, rule).in_gguf("attention.key_length"),
        own...);
}

/// How much of each head turns: as config.json has it, and as GGUF has it, which decides where it is there (derive_rotary_dim).
[[nodiscard]] constexpr Field partial_rotary_field(double fallback) {
    return rope_field("partial_rotary_factor", &RopeParameters::partial_rotary_factor, fallback);
}
inline constexpr auto rotary_dim_field =
    natural_field("rotary_dim", &ModelConfig::rotary_dim, 0).in_gguf("rope.dimension_count");

/// The window of attention; null is none.
[[nodiscard]] constexpr Field window_field(std::int64_t fallback) {
    return natural_field("sliding_window", &ModelConfig::sliding_window, fallback).in_gguf("attention.sliding_window");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
