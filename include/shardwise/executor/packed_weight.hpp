// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/quant/ggml_type.hpp>
#include <shardwise/quant/half_bits.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a file packs a weight that products do not take as it stands.
enum class PackedForm : std::uint8_t {
    ggml,      // blocks of a GGUF type
    bnb_4bit,  // bitsandbytes nf4 or fp4; absmax in eight bits with double quantisation
    bnb_int8,  // bitsandbytes LLM.int8: SCB
    gptq,      // qweight, qzeros, scales, g_idx
    awq,       // qweight, qzeros, scales
    fp8,       // E4M3, a scale for the matrix, for rows or for blocks
    integers,  // compressed-tensors: words of 32 bits along the inputs, or bytes
    kv_heads,  // deepseek's kv_b in two tensors of a GGUF file: each head's keys, turned, and its values
};

/// A packed weight [outputs, inputs] as views of its tensors in the mapped file.
struct PackedWeight {
    PackedForm form = PackedForm::ggml;
    std::int64_t outputs = 0;
    std::int64_t inputs = 0;
    std::span<std::byte const> data;
    std::span<std::byte const> scales;
    std::span<std::byte const> zeros;
    /// gptq, integers: the group of each input.
    std::span<std::byte const> index;
    GgmlType type = GgmlType::f32;
    /// fp8, integers: of the scales; gptq, awq: fp16 or bf16.
    Dtype scale_dtype = Dtype::f32;
    /// gptq, awq, integers: inputs that share a scale.
    std::int64_t group = 0;
    /// Of an element in a word; integers: 0 where they are bytes.
    std::int64_t bits = 4;
    /// integers: scales of one row, 0 where the matrix has one for all.
    std::int64_t row_scales = 0;
    /// gptq: what the file subtracted from a zero point.
    std::int64_t zero_offset = 1;
    /// fp8: extents of the blocks that share a scale.
    std::int64_t block_rows = 0;
    std::int64_t block_columns = 0;
    /// kv_heads: data are attn_k_b's [heads, inputs, key rows] of `type`, scales attn_v_b's [heads, value rows, inputs].
    GgmlType value_type = GgmlType::f32;
    std::int64_t key_rows = 0;
    std::int64_t value_rows = 0;
    /// bnb_4bit: the sixteen values; with double quantisation the absmax's own 256 values, absmax and offset.
    std::array<float, 16> code{};
    std::span<std::byte const> nested_code;
    std::span<std::byte const> nested_absmax;
    float nested_offset = 0.0F;

    /// All that it takes in the file.
    [[nodiscard]] std::int64_t bytes() const {
        auto const size = data.size() + scales.size() + zeros.size() + index.size() + nested_absmax.size();
        return static_cast<std::int64_t>(size);
    }
};

namespace detail {

/// A number of a scale's dtype at an index; checkpoints promise no alignment.
[[nodiscard]] inline float scale_at(std::span<std::byte const> scales, Dtype dtype, std::int64_t i) {
    if (dtype == Dtype::f16) return from_f16(load_at<std::uint16_t>(scales, i * 2));
    if (dtype == Dtype::bf16) return from_bf16(load_at<std::uint16_t>(scales, i * 2));
    SHARDWISE_ASSERT(dtype == Dtype::f32);  // assemble_packed refuses others
    return load_at<float>(scales, i * 4);
}

/// The absmax of a block of 64 of a 4-bit weight.
[[nodiscard]] inline float absmax_at(PackedWeight const& weight, std::int64_t block) {
    if (weight.nested_absmax.empty()) return load_at<float>(weight.scales, block * 4);
    auto const q = std::to_integer<std::int64_t>(weight.scales[static_cast<std::size_t>(block)]);
    // Two roundings, as in bitsandbytes; the exact product in double keeps compilers from fusing it with the sum.
    auto const product = static_cast<double>(load_at<float>(weight.nested_code, q * 4)) *
                         static_cast<double>(load_at<float>(weight.nested_absmax, block / 256 * 4));
    return static_cast<float>(product) + weight.nested_offset;
}

/// q - zero of a gptq or awq weight, and the index of its scale.
struct GroupedElement {
    std::int64_t value;
    std::int64_t scale;
};

[[nodiscard]] inline std::int64_t group_at(PackedWeight const& weight, std::int64_t input) {
    return weight.index.empty() ? input / weight.group : std::int64_t{load_at<std::int32_t>(weight.index, input * 4)};
}

/// `bits` bits at a bit offset of words that are `stride` apart; the bits may cross into the next word.
[[nodiscard]] inline std::int64_t bits_at(std::span<std::byte const> words, std::int64_t first, std::int64_t stride,
                                          std::int64_t bit, std::int64_t bits) {
    auto const word = first + bit / 32 * stride;
    auto const shift = bit % 32;
    std::uint64_t value = load_at<std::uint32_t>(words, word * 4);
    if (shift + bits > 32)
        value |= static_cast<std::uint64_t>(load_at<std::uint32_t>(words, (word + stride) * 4)) << 32U;
    return static_cast<std::int64_t>((value >> static_cast<unsigned>(shift)) &
                                     ((1U << static_cast<unsigned>(bits)) - 1U));
}

[[nodiscard]] inline GroupedElement gptq_at(PackedWeight const& weight, std::int64_t output, std::int64_t input) {
    auto const group = group_at(weight, input);
    auto const q = bits_at(weight.data, output, weight.outputs, input * weight.bits, weight.bits);
    auto const zeros = group * (weight.outputs * weight.bits / 32);
    auto const zero = bits_at(weight.zeros, zeros, 1, output * weight.bits, weight.bits) + weight.zero_offset;
    return {q - zero, group * weight.outputs + output};
}

[[nodiscard]] inline GroupedElement awq_at(PackedWeight const& weight, std::int64_t output, std::int64_t input) {
    auto const group = group_at(weight, input);
    // Of eight outputs in a word: the inverse of AWQ's order 0, 2, 4, 6, 1, 3, 5, 7.
    constexpr std::array<std::int64_t, 8> nibble_of{0, 4, 1, 5, 2, 6, 3, 7};
    auto const words = weight.outputs / 8;
    auto const bit = nibble_of[static_cast<std::size_t>(output % 8)] * 4;
    auto const q = bits_at(weight.data, input * words + output / 8, 1, bit, 4);
    auto const zero = bits_at(weight.zeros, group * words + output / 8, 1, bit, 4);
    return {q - zero, group * weight.outputs + output};
}

/// compressed-tensors packs inputs along a row of values, and outputs down a column of zero points: a stream of bits from the lowest,
/// of integers that are moved up by half their range.
///
/// Source  compressed-tensors 0.20 compressors/pack_quantized/helpers.py (pack_to_int32)
[[nodiscard]] inline GroupedElement integer_at(PackedWeight const& weight, std::int64_t output, std::int64_t input) {
    auto const bits = weight.bits;
    auto const group = group_at(weight, input);
    auto const scale = weight.row_scales > 0 ? output * weight.row_scales + group : 0;
    if (bits == 0) {
        std::int64_t const q = load_at<std::int8_t>(weight.data, output * weight.inputs + input);
        return {weight.zeros.empty() ? q : q - std::int64_t{load_at<std::int8_t>(weight.zeros, scale)}, scale};
    }
    auto const words = ceil_divide(weight.inputs * bits, 32);
    auto const q = bits_at(weight.data, output * words, 1, input * bits, bits);
    auto const middle = std::int64_t{1} << (bits - 1);
    return {q - (weight.zeros.empty() ? middle : bits_at(weight.zeros, group, weight.row_scales, output * bits, bits)),
            scale};
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
