// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/optional.hpp>
#include <shardwise/quant/ggml_type.hpp>

#include <array>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What mixtures ask of the whole model.
struct MixtureModel {
    /// Repeated blocks.
    std::int64_t layers = 1;
    /// Query heads that share one key-value head.
    std::int64_t heads_per_kv_head = 1;
    /// Routed experts in a layer, 0 where it has none.
    std::int64_t experts = 0;
    /// False where the token embeddings make the logits: they are then stored as the output would be.
    bool has_output_weight = true;
    /// True for the family whose tensors are raised less (LLM_ARCH_FALCON in llama-quant.cpp).
    bool mixes_lightly = false;
    /// True where an importance matrix guided the quantiser; the types that need one are made with it in any case.
    bool has_importance = false;
};

/// Which models a rule of a mixture is for.
enum class MixModels : std::uint8_t {
    none,
    any,
    shared,        // four or more query heads share a key-value head
    four_experts,  // at least
    eight_experts,
    light,        // those that mix lightly
    heavy,        // the others
    heavy_eight,  // of these, with eight experts
    heavy_other,  // and with another number
    important,    // an importance matrix guided the quantiser
    unimportant,
};

/// Which of their layers.
enum class MixLayers : std::uint8_t {
    all,
    first_two,
    first_four,
    first_sixteenth,
    first_eighth,
    middle,    // neither the first nor the last eighth
    favoured,  // the first and the last eighth, and every third between them
};

/// A type for the weights of a role in some layers of some models.
struct MixRule {
    GgmlType type = GgmlType::f32;
    MixModels models = MixModels::none;
    MixLayers layers = MixLayers::all;
};

/// The first rule that applies counts; where none does, the usual type.
using MixRules = std::array<MixRule, 3>;

/// What a file type has instead of its usual type.
struct Mixture {
    /// The output, where its rows are whole blocks: else Q6_K.
    Optional<GgmlType> output{};
    Optional<GgmlType> embedding{};
    /// What is no expert's.
    Optional<GgmlType> unless_expert{};
    MixRules attention_q{};
    MixRules attention_k{};
    MixRules attention_v{};
    MixRules attention_qkv{};
    MixRules attention_output{};
    MixRules ffn_down{};
    MixRules ffn_up{};  // and gate
    /// Below three bits: neither eight experts nor 80 layers raise keys and values further.
    bool is_lowest = false;
};

namespace detail {

/// The blocks that the _M mixtures favour.
[[nodiscard]] constexpr bool is_favoured_layer(std::int64_t layer, std::int64_t layers) {
    auto const eighth = layers / 8;
    return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

[[nodiscard]] constexpr bool is_for_model(MixModels models, MixtureModel const& model) {
    switch (models) {
        case MixModels::none: break;
        case MixModels::any: return true;
        case MixModels::shared: return model.heads_per_kv_head >= 4;
        case MixModels::four_experts: return model.experts >= 4;
        case MixModels::eight_experts: return model.experts == 8;
        case MixModels::light: return model.mixes_lightly;
        case MixModels::heavy: return !model.mixes_lightly;
        case MixModels::heavy_eight: return !model.mixes_lightly && model.experts == 8;
        case MixModels::heavy_other: return !model.mixes_lightly && model.experts != 8;
        case MixModels::important: return model.has_importance;
        case MixModels::unimportant: return !model.has_importance;
    }
    return false;
}

[[nodiscard]] constexpr bool is_for_layer(MixLayers which, std::int64_t layer, std::int64_t layers) {
    switch (which) {
        case MixLayers::all: break;
        case MixLayers::first_two: return layer < 2;
        case MixLayers::first_four: return layer < 4;
        case MixLayers::first_sixteenth: return layer < layers / 16;
        case MixLayers::first_eighth: return layer < layers / 8;
        case MixLayers::middle: return layer >= layers / 8 && layer < 7 * layers / 8;
        case MixLayers::favoured: return is_favoured_layer(layer, layers);
    }
    return true;
}

[[nodiscard]] constexpr GgmlType mixed_type(MixRules const& rules, GgmlType usual, std::int64_t layer,
                                            MixtureModel const& model) {
    for (auto const& rule : rules) {
        if (is_for_model(rule.models, model) && is_for_layer(rule.layers, layer, model.layers)) return rule.type;
    }
    return usual;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
