// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/quant/method_grain.hpp>
#include <shardwise/quant/quantized_bytes.hpp>
#include <shardwise/quant/weight.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The forms in which compressed-tensors (llm-compressor, vLLM) stores the weight of a linear layer.
enum class CompressedFormat : std::uint8_t {
    dense,           // as it was
    pack_quantized,  // integers packed into 32-bit words
    quantized,       // an element a byte: float-quantized, int-quantized, naive-quantized
    nvfp4,           // two 4-bit floats a byte, scales in fp8
    mxfp4,           // two 4-bit floats a byte, scales are powers of two
};

/// Which elements share a scale.
enum class ScaleSharing : std::uint8_t { tensor, channel, group, block };

/// One entry of `config_groups`, as far as sizes depend on it.
struct CompressedScheme {
    CompressedFormat format = CompressedFormat::dense;
    std::int64_t bits = 8;
    ScaleSharing sharing = ScaleSharing::tensor;
    std::int64_t group = 0;
    std::int64_t block_rows = 0;
    std::int64_t block_columns = 0;
    bool is_symmetric = true;
    /// actorder "group": a group's number is stored for each column.
    bool has_group_index = false;
    /// A scale (and a zero point) of the activations is stored.
    bool has_input_scale = false;
    bool has_input_zero_point = false;
    bool has_input_global_scale = false;
};

namespace detail {

[[nodiscard]] constexpr std::int64_t shared_scales(CompressedScheme const& scheme, std::int64_t in, std::int64_t out) {
    switch (scheme.sharing) {
        case ScaleSharing::tensor:
            return 1;
        case ScaleSharing::channel:
            return out;
        case ScaleSharing::group:
            return out * ceil_divide(in, scheme.group);
        case ScaleSharing::block:
            return ceil_divide(out, scheme.block_rows) * ceil_divide(in, scheme.block_columns);
    }
    return 0;
}

}  // namespace detail

/// Exact bytes of the tensors under which a compressed-tensors checkpoint stores a weight [out, in]: its values, scales,
/// zero points, shape and indices. Scales have the weight's dtype.
///
/// Units   bytes
/// Errors  nothing where a size leaves 63 bits
/// Source  compressed-tensors 0.20 compressors/*/base.py and quantization/lifecycle/initialize.py; vLLM
///         compressed_tensors_wNa16.py (weight_g_idx)
[[nodiscard]] constexpr Optional<std::int64_t> compressed_bytes(CompressedScheme const& scheme, Weight const& weight) {
    auto const elements = weight.shape.checked_elements();
    if (!elements) return std::nullopt;
    auto const in = weight.inputs();
    auto const out = weight.outputs();
    auto const matrices = in > 0 && out > 0 ? *elements / (in * out) : 0;
    auto const scale = bits(weight.dtype) / 8;
    auto const scales = matrices * detail::shared_scales(scheme, in, out);
    detail::ByteSum sum;
    switch (scheme.format) {
        case CompressedFormat::dense:
            return storage_bytes(weight.dtype, *elements);
        case CompressedFormat::pack_quantized:  // weight_packed, weight_scale, weight_shape
            sum.add(matrices * out, ceil_divide(in * scheme.bits, 32) * 4).add(scales, scale).add(matrices, 16);
            if (!scheme.is_symmetric && out > 0) {  // weight_zero_point, packed along the rows
                sum.add(scales / out, ceil_divide(out * scheme.bits, 32) * 4);
            }
            if (scheme.has_group_index) sum.add(matrices * in, 4);
            break;
        case CompressedFormat::quantized:  // weight, weight_scale, weight_zero_point
            sum.add(*elements, 1).add(scales, scale);
            if (!scheme.is_symmetric) sum.add(scales, 1);
            break;
        case CompressedFormat::nvfp4:  // weight_packed, weight_scale in fp8, weight_global_scale
            sum.add(matrices * out, ceil_divide(in, 2)).add(scales, 1).add(matrices, 4);
            break;
        case CompressedFormat::mxfp4:  // weight_packed, weight_scale in e8m0
            sum.add(matrices * out, ceil_divide(in, 2)).add(scales, 1);
            break;
    }
    if (scheme.has_input_scale) sum.add(matrices, scale);
    if (scheme.has_input_zero_point) sum.add(matrices, 1);
    if (scheme.has_input_global_scale) sum.add(matrices, 4);
    return sum.total();
}

/// The inputs of such a weight that stay together in the format that it is held in once it is loaded: a group of int4, a block of Q5_0 or
/// Q8_0. 1 for what is decoded, as weights whose inputs have an order of their own mostly are, and where each row has one scale.
///
/// Units   elements of a row
/// Source  executor/assemble_packed.hpp (integer_format), which knows the files themselves
[[nodiscard]] constexpr std::int64_t compressed_grain(CompressedScheme const& scheme, Weight const& weight) {
    bool const has_words = scheme.format == CompressedFormat::pack_quantized;
    bool const has_bytes = scheme.format == CompressedFormat::quantized;
    if ((!has_words && !has_bytes) || scheme.has_group_index) return 1;
    bool const is_wide = has_bytes || scheme.bits > 4;
    bool const is_grouped = scheme.sharing == ScaleSharing::group && scheme.group > 0;
    if (is_wide && (!is_grouped || !scheme.is_symmetric || scheme.group >= weight.inputs())) return 1;
    if (weight.dtype == Dtype::f32) return 1;
    auto const group = is_grouped ? scheme.group : weight.inputs();
    if (!is_wide && scheme.is_symmetric && group % 2 == 0) return detail::int4_group_grain(group);
    return detail::block_grain(weight.inputs(), group);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
