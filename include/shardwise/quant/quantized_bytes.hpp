// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/quant/ggml_mixture.hpp>
#include <shardwise/quant/packed_bytes.hpp>
#include <shardwise/quant/quant_method_table.hpp>
#include <shardwise/quant/scheme.hpp>
#include <shardwise/quant/weight.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Whether whole 32-bit words hold the elements along both sides, as GPTQ's and AWQ's packers demand.
[[nodiscard]] constexpr bool fills_words(QuantScheme const& scheme, Weight const& weight) {
    if (traits(scheme.method).packs_inputs && weight.inputs() * scheme.bits % 32 != 0) return false;
    return weight.outputs() * scheme.bits % 32 == 0;
}

[[nodiscard]] constexpr Optional<std::int64_t> ggml_stored_bytes(GgmlType type, Weight const& weight,
                                                                      std::int64_t elements) {
    if (!traits(type).is_quantized) return checked_multiply(elements, traits(type).block_bytes);
    auto const columns = weight.inputs();
    auto const row = ggml_row_bytes(type, columns);
    if (!row || columns == 0) return row;
    return checked_multiply(*row, elements / columns);
}

/// Bytes of a weight that its scheme packs, scales included; `elements` is the size of its shape.
[[nodiscard]] constexpr Optional<std::int64_t> packed_bytes(QuantScheme const& scheme, Weight const& weight,
                                                                 std::int64_t elements) {
    if (scheme.is_ggml()) return std::nullopt;
    return traits(scheme.method).bytes(scheme, PackedExtents(weight, elements));
}

}  // namespace detail

/// Whether a scheme packs a tensor or leaves it as it is.
///
/// bitsandbytes replaces every nn.Linear but the one that makes the logits; fp8 leaves routers too; GPTQ and AWQ pack
/// linear weights inside blocks whose sides fill 32-bit words; mxfp4 packs experts only; GGUF every matrix but routers
/// and tables of positions. (For GGUF, types such as F16 count as not packed.)
///
/// Source  transformers 4.57 integrations/bitsandbytes.py, integrations/finegrained_fp8.py, quantizer_mxfp4.py;
///         AutoGPTQ; AutoAWQ; llama-quant.cpp
[[nodiscard]] constexpr bool packs(QuantScheme const& scheme, Weight const& weight, MixtureModel const& model = {}) {
    bool const is_matrix = weight.shape.rank() == 2;
    bool const is_linear = is_product(weight.use) && weight.shape.rank() >= 2;
    switch (traits(scheme.method).weights) {
        case PackedWeights::modules:
            return is_matrix && weight.in_linear_module && (is_product(weight.use) || weight.use == TensorUse::router);
        case PackedWeights::linear: return is_linear && (weight.in_linear_module || weight.is_expert);
        case PackedWeights::words:
            return is_linear && is_matrix && weight.in_block && detail::fills_words(scheme, weight);
        case PackedWeights::experts: return is_linear && weight.is_expert && weight.inputs() % 32 == 0;
        case PackedWeights::of_file_type: return traits(stored_type(scheme.file_type, weight, model)).is_quantized;
        case PackedWeights::of_type: return traits(stored_type(scheme.type, weight)).is_quantized;
    }
    return false;
}

/// Exact bytes of the tensors under which a quantised checkpoint stores one weight: packed elements, scales, zero
/// points, indices and code tables. A tensor that the scheme leaves alone keeps its dtype, in GGUF files F32.
///
/// bitsandbytes' `quant_state` (80 to 200 bytes of JSON for each 4-bit weight, with the offset of double quantisation)
/// is not counted: its length depends on the digits of a number in it.
///
/// Units   bytes
/// Errors  nothing where a size leaves 63 bits
/// Source  real state dicts: tests/golden/quant; vLLM's and AutoGPTQ's layouts for gptq and awq
[[nodiscard]] constexpr Optional<std::int64_t> quantized_bytes(QuantScheme const& scheme, Weight const& weight,
                                                                    MixtureModel const& model = {}) {
    auto const elements = weight.shape.checked_elements();
    if (!elements) return std::nullopt;
    if (scheme.is_ggml() && traits(weight.dtype).is_floating) {
        auto const type = scheme.method == QuantMethod::ggml_file ? stored_type(scheme.file_type, weight, model)
                                                                  : stored_type(scheme.type, weight);
        return detail::ggml_stored_bytes(type, weight, *elements);
    }
    if (scheme.is_ggml() || !packs(scheme, weight, model)) return storage_bytes(weight.dtype, *elements);
    return detail::packed_bytes(scheme, weight, *elements);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
