// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/ggml_file_type.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The file types below three bits, which share one rule.
[[nodiscard]] constexpr bool is_lowest_mixture(GgmlFileType file) {
    return file == GgmlFileType::iq1_s || file == GgmlFileType::iq1_m || file == GgmlFileType::iq2_xxs ||
           file == GgmlFileType::iq2_xs || file == GgmlFileType::iq2_s || file == GgmlFileType::iq2_m;
}

/// The blocks that the _M mixtures favour: the first and the last eighth, and every third between them.
[[nodiscard]] constexpr bool is_favoured_layer(std::int64_t layer, std::int64_t layers) {
    auto const eighth = layers / 8;
    return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

[[nodiscard]] constexpr GgmlType mixed_output(GgmlFileType file, GgmlType usual, std::int64_t columns,
                                              MixtureModel const& model) {
    if (file == GgmlFileType::mxfp4_moe || model.mixes_lightly) return GgmlType::q8_0;
    if (columns % traits(usual).block_elements != 0) return GgmlType::q8_0;
    if (is_lowest_mixture(file) || file == GgmlFileType::iq3_xxs) return GgmlType::q5_k;
    return usual == GgmlType::q8_0 ? usual : GgmlType::q6_k;
}

[[nodiscard]] constexpr GgmlType mixed_embedding(GgmlFileType file, GgmlType usual) {
    using enum GgmlFileType;
    switch (file) {
        case iq1_s:
        case iq1_m:
        case iq2_xxs:
        case iq2_xs: return GgmlType::q2_k;
        case iq2_s:
        case iq2_m:
        case iq3_xxs: return GgmlType::iq3_s;
        case tq1_0:
        case tq2_0:
        case q2_0: return GgmlType::q4_k;
        case all_f32: case f16: case q4_0: case q4_1: case q8_0: case q5_0: case q5_1: case q2_k: case q3_k_s:
        case q3_k_m: case q3_k_l: case q4_k_s: case q4_k_m: case q5_k_s: case q5_k_m: case q6_k: case q2_k_s:
        case iq3_xs: case iq4_nl: case iq3_s: case iq3_m: case iq4_xs: case bf16: case mxfp4_moe: case nvfp4:
        case q1_0: break;
    }
    return usual;
}

[[nodiscard]] constexpr GgmlType mixed_lowest(GgmlFileType file, GgmlType usual, Weight const& weight,
                                              MixtureModel const& model) {
    bool const is_two_bit = file == GgmlFileType::iq2_s || file == GgmlFileType::iq2_m;
    bool const is_one_bit = file == GgmlFileType::iq1_s || file == GgmlFileType::iq1_m;
    auto const better = is_two_bit ? GgmlType::iq3_s : GgmlType::q2_k;
    using enum WeightRole;
    switch (weight.role) {
        case attention_v:
            return model.heads_per_kv_head >= 4 || model.experts >= 4 ? GgmlType::q4_k : better;
        case attention_k: return model.experts == 8 ? GgmlType::q4_k : usual;
        case ffn_down: return weight.layer < model.layers / 8 ? better : usual;
        case attention_output:
            if (model.experts == 8) return GgmlType::q5_k;
            return is_one_bit ? GgmlType::iq2_xxs : is_two_bit ? GgmlType::iq3_s : usual;
        case other: case token_embedding: case side_table: case relative_bias: case output: case attention_q:
        case attention_qkv: case attention_kv_b: case ffn_up: case ffn_gate: case router: break;
    }
    return usual;
}

[[nodiscard]] constexpr GgmlType mixed_attention_v(GgmlFileType file, GgmlType usual, std::int64_t layer,
                                                   MixtureModel const& model) {
    bool const is_shared = model.heads_per_kv_head >= 4;
    using enum GgmlFileType;
    switch (file) {
        case q2_k: return is_shared ? GgmlType::q4_k : GgmlType::q3_k;
        case q2_k_s: return is_shared ? GgmlType::q4_k : usual;
        case iq3_xxs: return is_shared ? GgmlType::q4_k : GgmlType::iq3_xxs;
        case iq3_xs:
        case iq3_s: return is_shared ? GgmlType::q4_k : usual;
        case iq3_m: return GgmlType::q4_k;
        case q3_k_m: return layer < 2 ? GgmlType::q5_k : GgmlType::q4_k;
        case q3_k_l: return GgmlType::q5_k;
        case iq4_nl:
        case iq4_xs: return is_shared ? GgmlType::q5_k : usual;
        case q4_k_s: return layer < 4 ? GgmlType::q5_k : usual;
        case q4_k_m:
        case q5_k_m: return is_favoured_layer(layer, model.layers) ? GgmlType::q6_k : usual;
        case all_f32: case f16: case q4_0: case q4_1: case q8_0: case q5_0: case q5_1: case q3_k_s: case q5_k_s:
        case q6_k: case iq2_xxs: case iq2_xs: case iq1_s: case iq2_s: case iq2_m: case iq1_m: case bf16: case tq1_0:
        case tq2_0: case mxfp4_moe: case nvfp4: case q1_0: case q2_0: break;
    }
    return usual;
}

[[nodiscard]] constexpr GgmlType mixed_attention_qkv(GgmlFileType file, GgmlType usual) {
    using enum GgmlFileType;
    switch (file) {
        case q3_k_m:
        case q3_k_l:
        case iq3_m: return GgmlType::q4_k;
        case q4_k_m: return GgmlType::q5_k;
        case q5_k_m: return GgmlType::q6_k;
        case all_f32: case f16: case q4_0: case q4_1: case q8_0: case q5_0: case q5_1: case q2_k: case q3_k_s:
        case q4_k_s: case q5_k_s: case q6_k: case iq2_xxs: case iq2_xs: case q2_k_s: case iq3_xs: case iq3_xxs:
        case iq1_s: case iq4_nl: case iq3_s: case iq2_s: case iq2_m: case iq4_xs: case iq1_m: case bf16: case tq1_0:
        case tq2_0: case mxfp4_moe: case nvfp4: case q1_0: case q2_0: break;
    }
    return usual;
}

[[nodiscard]] constexpr GgmlType mixed_ffn_down(GgmlFileType file, GgmlType usual, std::int64_t layer,
                                                MixtureModel const& model) {
    auto const layers = model.layers;
    bool const is_first_eighth = layer < layers / 8;
    bool const is_favoured = is_favoured_layer(layer, layers);
    using enum GgmlFileType;
    switch (file) {
        case q2_k: return GgmlType::q3_k;
        case q2_k_s: return is_first_eighth ? GgmlType::q4_k : usual;
        case q3_k_m:
            if (layer < layers / 16) return GgmlType::q5_k;
            return !model.mixes_lightly || is_favoured ? GgmlType::q4_k : GgmlType::q3_k;
        case iq3_m:
            return is_first_eighth || (model.experts == 8 && is_favoured) ? GgmlType::q4_k : usual;
        case q3_k_l: return model.mixes_lightly ? GgmlType::q4_k : GgmlType::q5_k;
        case q4_k_m:
            if (!model.mixes_lightly) return is_favoured ? GgmlType::q6_k : usual;
            return layer < layers / 16 ? GgmlType::q6_k : is_favoured ? GgmlType::q5_k : usual;
        case iq4_nl:
        case iq4_xs: return is_first_eighth && !model.has_importance ? GgmlType::q5_k : usual;
        case q5_k_m: return is_favoured ? GgmlType::q6_k : usual;
        case q4_k_s: return is_first_eighth && !model.mixes_lightly ? GgmlType::q5_k : usual;
        case q4_0: return is_first_eighth && model.has_importance ? GgmlType::q4_1 : usual;
        case q5_0: return is_first_eighth && model.has_importance ? GgmlType::q5_1 : usual;
        case all_f32: case f16: case q4_1: case q8_0: case q5_1: case q3_k_s: case q5_k_s: case q6_k: case iq2_xxs:
        case iq2_xs: case iq3_xs: case iq3_xxs: case iq1_s: case iq3_s: case iq2_s: case iq2_m: case iq1_m: case bf16:
        case tq1_0: case tq2_0: case mxfp4_moe: case nvfp4: case q1_0: case q2_0: break;
    }
    return usual;
}

[[nodiscard]] constexpr GgmlType mixed_attention_output(GgmlFileType file, GgmlType usual, MixtureModel const& model) {
    if (model.mixes_lightly) return file == GgmlFileType::q3_k_l ? GgmlType::q4_k : usual;
    if (model.experts == 8) {
        using enum GgmlFileType;
        switch (file) {
            case q2_k:
            case iq3_xs:
            case iq3_xxs:
            case q3_k_s:
            case q3_k_m:
            case iq4_nl:
            case q4_k_s:
            case q4_k_m:
            case iq3_s:
            case iq3_m:
            case iq4_xs: return GgmlType::q5_k;
            case all_f32: case f16: case q4_0: case q4_1: case q8_0: case q5_0: case q5_1: case q3_k_l: case q5_k_s:
            case q5_k_m: case q6_k: case iq2_xxs: case iq2_xs: case q2_k_s: case iq1_s: case iq2_s: case iq2_m:
            case iq1_m: case bf16: case tq1_0: case tq2_0: case mxfp4_moe: case nvfp4: case q1_0: case q2_0: break;
        }
        return usual;
    }
    using enum GgmlFileType;
    switch (file) {
        case q2_k: return GgmlType::q3_k;
        case iq3_xxs: return GgmlType::iq3_s;
        case q3_k_m:
        case iq3_m: return GgmlType::q4_k;
        case q3_k_l: return GgmlType::q5_k;
        case all_f32: case f16: case q4_0: case q4_1: case q8_0: case q5_0: case q5_1: case q3_k_s: case q4_k_s:
        case q4_k_m: case q5_k_s: case q5_k_m: case q6_k: case iq2_xxs: case iq2_xs: case q2_k_s: case iq3_xs:
        case iq1_s: case iq4_nl: case iq3_s: case iq2_s: case iq2_m: case iq4_xs: case iq1_m: case bf16: case tq1_0:
        case tq2_0: case mxfp4_moe: case nvfp4: case q1_0: case q2_0: break;
    }
    return usual;
}

}  // namespace detail

/// The type that a mixture wants for a weight, before its shape is looked at.
///
/// The output keeps at least six bits. In the other weights the value projection and ffn_down get more bits than the
/// rest, in every layer or in the favoured ones; where four or more query heads share one key-value head, or where
/// there are eight experts, the small attention matrices are raised further because they then cost almost nothing.
///
/// Source  llama-quant.cpp (llama_tensor_get_type_impl). A fused qkv has the rule of its own that it had until the
///         refactoring of 2026, which takes it for a value projection: with it published files come out to the byte.
[[nodiscard]] constexpr GgmlType mixture_type(GgmlFileType file, Weight const& weight, MixtureModel const& model) {
    auto const usual = traits(file).usual;
    if (!traits(usual).is_quantized) return usual;
    bool const is_output = weight.role == WeightRole::output || weight.use == TensorUse::head;
    // A table whose caller does not tell roles apart is the tokens'.
    bool const is_embedding = weight.role == WeightRole::token_embedding ||
                              (weight.use == TensorUse::embedding && weight.role == WeightRole::other);
    if (is_output || (is_embedding && !model.has_output_weight)) {
        return detail::mixed_output(file, usual, weight.inputs(), model);
    }
    if (file == GgmlFileType::mxfp4_moe) return weight.is_expert ? GgmlType::mxfp4 : GgmlType::q8_0;
    if (is_embedding) return detail::mixed_embedding(file, usual);
    if (detail::is_lowest_mixture(file)) return detail::mixed_lowest(file, usual, weight, model);
    using enum WeightRole;
    switch (weight.role) {
        case attention_v: {
            if (model.experts == 8) return GgmlType::q8_0;
            auto const type = detail::mixed_attention_v(file, usual, weight.layer, model);
            // llama.cpp knows the 70B models of llama and qwen2 by their 80 layers.
            bool const is_70b = model.layers == 80 && model.heads_per_kv_head > 1;
            return is_70b && (type == GgmlType::q3_k || type == GgmlType::q4_k) ? GgmlType::q5_k : type;
        }
        case attention_k:
            if (model.experts == 8) return GgmlType::q8_0;
            [[fallthrough]];
        case attention_q:
            if (file == GgmlFileType::iq3_xs) return GgmlType::iq3_xxs;
            return file == GgmlFileType::iq3_xxs ? GgmlType::iq2_s : usual;
        case ffn_down: return detail::mixed_ffn_down(file, usual, weight.layer, model);
        case attention_output: return detail::mixed_attention_output(file, usual, model);
        case attention_qkv: return detail::mixed_attention_qkv(file, usual);
        case ffn_gate:
        case ffn_up:
            return file == GgmlFileType::iq3_xs && weight.layer >= model.layers / 8 &&
                           weight.layer < 7 * model.layers / 8
                       ? GgmlType::iq3_xxs
                       : usual;
        case other: case token_embedding: case side_table: case relative_bias: case output: case attention_kv_b:
        case router: break;
    }
    return usual;
}

/// Layers of one class (0 to 63) have the same types under every mixture, so that sums over a model look at one layer
/// of each class that occurs; there are at most eight.
[[nodiscard]] constexpr std::int64_t mixture_layer_class(std::int64_t layer, std::int64_t layers) {
    std::int64_t bits = layer < 2 ? 1 : 0;
    bits += layer < 4 ? 2 : 0;
    bits += layer < layers / 16 ? 4 : 0;
    bits += layer < layers / 8 ? 8 : 0;
    bits += layer >= 7 * layers / 8 ? 16 : 0;
    return bits + (detail::is_favoured_layer(layer, layers) ? 32 : 0);
}

/// The type that stands in where a row of `columns` is no whole number of `type`'s blocks: for the types of 256 the
/// nearest one of 32, and F16 where even that does not fit (or where llama.cpp has no other and refuses the model).
///
/// Source  llama-quant.cpp (tensor_type_fallback)
[[nodiscard]] constexpr GgmlType fitting_type(GgmlType type, std::int64_t columns) {
    if (columns % traits(type).block_elements == 0) return type;
    auto const stand_in = traits(type).stand_in;
    return columns % traits(stand_in).block_elements == 0 ? stand_in : GgmlType::f16;
}

/// True for the tensors that GGUF files store in another type than F32: matrices of products and the token embeddings.
///
/// Source  convert_hf_to_gguf.py (prepare_tensors), llama-quant.cpp (tensor_allows_quantization)
[[nodiscard]] constexpr bool is_ggml_matrix(Weight const& weight) {
    bool const is_used = weight.use == TensorUse::linear || weight.use == TensorUse::embedding ||
                         weight.use == TensorUse::head || weight.role == WeightRole::relative_bias;
    return is_used && weight.dimensions() >= 2 && weight.role != WeightRole::side_table &&
           weight.role != WeightRole::router;
}

/// The type under which a file of this file type stores a tensor: F32 for norms, biases, routers and small tables.
[[nodiscard]] constexpr GgmlType stored_type(GgmlFileType file, Weight const& weight, MixtureModel const& model) {
    auto const usual = traits(file).usual;
    if (!is_ggml_matrix(weight)) return GgmlType::f32;
    // The quantiser leaves t5's table as the converter wrote it.
    if (weight.role == WeightRole::relative_bias) return traits(usual).is_quantized ? GgmlType::f16 : usual;
    return fitting_type(mixture_type(file, weight, model), weight.inputs());
}

/// The same for a file of one type throughout (llama-quantize --pure).
[[nodiscard]] constexpr GgmlType stored_type(GgmlType type, Weight const& weight) {
    if (!is_ggml_matrix(weight)) return GgmlType::f32;
    if (weight.role == WeightRole::relative_bias && traits(type).is_quantized) return GgmlType::f16;
    return fitting_type(type, weight.inputs());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
