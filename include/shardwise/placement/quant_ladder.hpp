// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/quant/quantized_bytes.hpp>
#include <shardwise/quant/scheme.hpp>

#include <array>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Quantisations from the mildest to the hardest; answers name the first that fits.
inline constexpr std::array<QuantScheme, 6> quant_ladder{
    QuantScheme::fp8(),  QuantScheme::int8(), QuantScheme::mxfp4(),
    QuantScheme::int4(), QuantScheme::ggml(GgmlFileType::q3_k_m), QuantScheme::ggml(GgmlFileType::q2_k)};

/// The whole bits that a scheme spends on an element of a large matrix of an expert, scales left out by rounding down.
[[nodiscard]] constexpr std::int64_t nominal_bits(QuantScheme const& scheme) {
    Weight const weight{.shape = {4096, 4096}, .is_expert = true};
    return quantized_bytes(scheme, weight).value_or(0) * 8 / weight.shape.elements();
}

/// The whole bits that an element of the linear weights takes as a request has them: its packing, its dtype, else the
/// published packing or what the tree stores, on average.
[[nodiscard]] constexpr std::int64_t weight_bits(Model const& model, EstimateRequest const& request) {
    auto const packing = as_published(request, model.config).quant;
    bool const packs_nothing = packing && model.config.experts == 0 &&
                               traits(packing->method).weights == PackedWeights::experts;
    if (packing && !packs_nothing) return nominal_bits(*packing);
    if (request.dtype) return bits(*request.dtype);
    auto const sum = [&](auto const& measure) {
        return sum_tensors(model.tree, [&](Tensor const& tensor) {
            bool const is_linear = tensor.is_parameter() && is_product(tensor.use) && tensor.shape.rank() >= 2;
            return is_linear ? measure(tensor) : std::int64_t{0};
        });
    };
    auto const elements = sum([](Tensor const& tensor) { return tensor.shape.elements(); });
    auto const bytes = sum([](Tensor const& tensor) { return tensor.bytes().count(); });
    return elements > 0 ? static_cast<std::int64_t>(8.0 * static_cast<double>(bytes) / static_cast<double>(elements))
                        : bits(model.config.dtype_or(Dtype::f32));
}

/// The rungs of the ladder that are below what the weights are already: no one packs an fp8 checkpoint to int8. MXFP4 is
/// for experts only.
[[nodiscard]] constexpr List<QuantScheme> smaller_schemes(Model const& model, EstimateRequest const& request) {
    auto const now = weight_bits(model, request);
    List<QuantScheme> smaller;
    for (auto const& scheme : quant_ladder) {
        bool const is_usable = traits(scheme.method).weights != PackedWeights::experts || model.config.experts > 0;
        if (is_usable && nominal_bits(scheme) < now) smaller.push_back(scheme);
    }
    return smaller;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
