// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/quant/ggml_mixture.hpp>
#include <shardwise/quant/scheme.hpp>
#include <shardwise/quant/weight.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A sum of counts times bytes that remembers whether it left 63 bits.
class ByteSum {
public:
    constexpr ByteSum& add(std::int64_t count, std::int64_t bytes_each) {
        auto const product = checked_multiply(count, bytes_each);
        total_ = total_ && product ? checked_add(*total_, *product) : std::nullopt;
        return *this;
    }
    /// Adds `count` elements of less than a byte, packed without gaps.
    constexpr ByteSum& add_bits(std::int64_t count, std::int64_t bits_each) {
        auto const product = checked_multiply(count, bits_each);
        total_ = total_ && product ? checked_add(*total_, ceil_divide(*product, 8)) : std::nullopt;
        return *this;
    }
    [[nodiscard]] constexpr Optional<std::int64_t> total() const { return total_; }

private:
    Optional<std::int64_t> total_ = 0;
};

[[nodiscard]] constexpr std::int64_t groups_of(std::int64_t inputs, std::int64_t group) {
    return group > 0 ? ceil_divide(inputs, group) : (inputs > 0 ? 1 : 0);
}

/// Whether whole 32-bit words hold the elements along both sides, as GPTQ's and AWQ's packers demand.
[[nodiscard]] constexpr bool fills_words(QuantScheme const& scheme, Weight const& weight) {
    if (scheme.method == QuantMethod::gptq && weight.inputs() * scheme.bits % 32 != 0) return false;
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
    auto const in = weight.inputs();
    auto const out = weight.outputs();
    auto const matrices = in > 0 && out > 0 ? elements / (in * out) : 0;
    ByteSum sum;
    switch (scheme.method) {
        case QuantMethod::int8:  // int8 weight, fp32 SCB, the one byte of weight_format
            return sum.add(elements, 1).add(matrices * out, 4).add(matrices, 1).total();
        case QuantMethod::int4:  // rows of whole bytes, fp16 scales
            sum.add(matrices * out, ceil_divide(in, 2));
            return sum.add(matrices * out * groups_of(in, scheme.group), 2).total();
        case QuantMethod::nf4:
        case QuantMethod::fp4: {  // weight, quant_map, absmax; or its eight bits, nested_absmax and nested_quant_map
            auto const blocks = ceil_divide(elements, scheme.group > 0 ? scheme.group : 64);
            sum.add_bits(elements, 4).add(16, 4);
            if (!scheme.double_quant) return sum.add(blocks, 4).total();
            return sum.add(blocks, 1).add(ceil_divide(blocks, 256), 4).add(256, 4).total();
        }
        case QuantMethod::fp8: {  // weight, weight_scale or weight_scale_inv, input_scale
            auto const down = scheme.block_rows > 0 ? ceil_divide(out, scheme.block_rows) : 1;
            auto const across = scheme.block_columns > 0 ? ceil_divide(in, scheme.block_columns) : 1;
            auto const inputs = scheme.static_activations ? matrices : 0;
            return sum.add(elements, 1).add(matrices * down * across, 4).add(inputs, 4).total();
        }
        case QuantMethod::gptq: {  // qweight, qzeros, scales, g_idx
            auto const groups = groups_of(in, scheme.group);
            sum.add_bits(elements, scheme.bits).add_bits(matrices * groups * out, scheme.bits);
            return sum.add(matrices * groups * out, 2).add(matrices * in, 4).total();
        }
        case QuantMethod::awq: {  // qweight, qzeros, scales
            auto const groups = groups_of(in, scheme.group);
            sum.add_bits(elements, scheme.bits).add_bits(matrices * groups * out, scheme.bits);
            return sum.add(matrices * groups * out, 2).total();
        }
        case QuantMethod::mxfp4:  // blocks [..., in / 32, 16], scales [..., in / 32]
            return sum.add(elements / 32, 16 + 1).total();
        case QuantMethod::ggml_file:
        case QuantMethod::ggml_pure: break;
    }
    return std::nullopt;
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
    bool const is_linear = weight.use == TensorUse::linear && weight.shape.rank() >= 2;
    switch (scheme.method) {
        case QuantMethod::int8:
        case QuantMethod::nf4:
        case QuantMethod::fp4:
            return is_matrix && weight.in_linear_module &&
                   (weight.use == TensorUse::linear || weight.use == TensorUse::router);
        case QuantMethod::int4:
        case QuantMethod::fp8: return is_linear && (weight.in_linear_module || weight.is_expert);
        case QuantMethod::gptq:
        case QuantMethod::awq:
            return is_linear && is_matrix && weight.in_block && detail::fills_words(scheme, weight);
        case QuantMethod::mxfp4: return is_linear && weight.is_expert && weight.inputs() % 32 == 0;
        case QuantMethod::ggml_file: return traits(stored_type(scheme.file_type, weight, model)).is_quantized;
        case QuantMethod::ggml_pure: return traits(stored_type(scheme.type, weight)).is_quantized;
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
