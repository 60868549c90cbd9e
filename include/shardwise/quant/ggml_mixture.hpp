// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/ggml_file_type.hpp>
#include <shardwise/quant/mix_rules.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

[[nodiscard]] constexpr GgmlType mixed_output(GgmlFileTypeTraits const& file, std::int64_t columns,
                                              MixtureModel const& model) {
    if (model.mixes_lightly || columns % traits(file.usual).block_elements != 0) return GgmlType::q8_0;
    return file.mixture.output.value_or(file.usual == GgmlType::q8_0 ? GgmlType::q8_0 : GgmlType::q6_k);
}

/// The rules for a product, null where a mixture has none.
[[nodiscard]] constexpr MixRules const* rules_of(Mixture const& mixture, TensorUse use) {
    using enum TensorUse;
    switch (use) {
        case attention_q: return &mixture.attention_q;
        case attention_k: return &mixture.attention_k;
        case attention_v: return &mixture.attention_v;
        case attention_qkv: return &mixture.attention_qkv;
        case attention_output: return &mixture.attention_output;
        case ffn_down:
            return &mixture.ffn_down;
        case ffn_up: return &mixture.ffn_up;
        case linear:
        case embedding:
        case side_table:
        case relative_bias:
        case head:
        case router:
        case norm:
        case bias:
        case other:
            break;
    }
    return nullptr;
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
    auto const& row = traits(file);
    auto const& mixture = row.mixture;
    if (!traits(row.usual).is_quantized) return row.usual;
    bool const is_embedding = weight.use == TensorUse::embedding;
    if (weight.use == TensorUse::head || (is_embedding && !model.has_output_weight)) {
        return detail::mixed_output(row, weight.inputs(), model);
    }
    if (mixture.unless_expert) return weight.is_expert ? row.usual : *mixture.unless_expert;
    if (is_embedding) return mixture.embedding.value_or(row.usual);
    auto const* const rules = detail::rules_of(mixture, weight.use);
    if (rules == nullptr) return row.usual;
    bool const is_value = weight.use == TensorUse::attention_v;
    bool const is_raised = !mixture.is_lowest && (is_value || weight.use == TensorUse::attention_k);
    if (is_raised && model.experts == 8) return GgmlType::q8_0;
    auto const type = detail::mixed_type(*rules, row.usual, weight.layer, model);
    // llama.cpp knows the 70B models of llama and qwen2 by their 80 layers.
    bool const is_70b = is_raised && is_value && model.layers == 80 && model.heads_per_kv_head > 1;
    return is_70b && (type == GgmlType::q3_k || type == GgmlType::q4_k) ? GgmlType::q5_k : type;
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
    bool const is_stored_packed = is_product(weight.use) || weight.use == TensorUse::embedding ||
                                  weight.use == TensorUse::head || weight.use == TensorUse::relative_bias;
    return is_stored_packed && weight.dimensions() >= 2;
}

/// The type under which a file of this file type stores a tensor: F32 for norms, biases, routers and small tables.
[[nodiscard]] constexpr GgmlType stored_type(GgmlFileType file, Weight const& weight, MixtureModel const& model) {
    auto const usual = traits(file).usual;
    if (!is_ggml_matrix(weight)) return GgmlType::f32;
    // The quantiser leaves t5's table as the converter wrote it.
    if (weight.use == TensorUse::relative_bias) return traits(usual).is_quantized ? GgmlType::f16 : usual;
    return fitting_type(mixture_type(file, weight, model), weight.inputs());
}

/// The same for a file of one type throughout (llama-quantize --pure).
[[nodiscard]] constexpr GgmlType stored_type(GgmlType type, Weight const& weight) {
    if (!is_ggml_matrix(weight)) return GgmlType::f32;
    if (weight.use == TensorUse::relative_bias && traits(type).is_quantized) return GgmlType::f16;
    return fitting_type(type, weight.inputs());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
