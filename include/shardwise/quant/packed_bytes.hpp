// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/quant/quant_scheme.hpp>
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

/// The extents of a weight that is packed: matrices [outputs, inputs], `elements` in all of them.
struct PackedExtents {
    std::int64_t elements;
    std::int64_t inputs;
    std::int64_t outputs;
    std::int64_t matrices;

    constexpr PackedExtents(Weight const& weight, std::int64_t elements_of_all)
        : elements(elements_of_all),
          inputs(weight.inputs()),
          outputs(weight.outputs()),
          matrices(inputs > 0 && outputs > 0 ? elements / (inputs * outputs) : 0) {}
};

// Bytes of the tensors that hold a packed weight; nothing where they leave 63 bits.

/// int8 weight, fp32 SCB, the one byte of weight_format.
[[nodiscard]] constexpr Optional<std::int64_t> int8_bytes(QuantScheme const&, PackedExtents const& of) {
    return ByteSum().add(of.elements, 1).add(of.matrices * of.outputs, 4).add(of.matrices, 1).total();
}
/// Rows of whole bytes, fp16 scales.
[[nodiscard]] constexpr Optional<std::int64_t> int4_bytes(QuantScheme const& scheme, PackedExtents const& of) {
    ByteSum sum;
    sum.add(of.matrices * of.outputs, ceil_divide(of.inputs, 2));
    return sum.add(of.matrices * of.outputs * groups_of(of.inputs, scheme.group), 2).total();
}
/// weight, quant_map, absmax; or its eight bits, nested_absmax and nested_quant_map.
[[nodiscard]] constexpr Optional<std::int64_t> bnb_4bit_bytes(QuantScheme const& scheme, PackedExtents const& of) {
    ByteSum sum;
    auto const blocks = ceil_divide(of.elements, scheme.group > 0 ? scheme.group : 64);
    sum.add_bits(of.elements, 4).add(16, 4);
    if (!scheme.double_quant) return sum.add(blocks, 4).total();
    return sum.add(blocks, 1).add(ceil_divide(blocks, 256), 4).add(256, 4).total();
}
/// weight, weight_scale or weight_scale_inv, input_scale.
[[nodiscard]] constexpr Optional<std::int64_t> fp8_bytes(QuantScheme const& scheme, PackedExtents const& of) {
    auto const down = scheme.block_rows > 0 ? ceil_divide(of.outputs, scheme.block_rows) : 1;
    auto const across = scheme.block_columns > 0 ? ceil_divide(of.inputs, scheme.block_columns) : 1;
    auto const inputs = scheme.static_activations ? of.matrices : 0;
    return ByteSum().add(of.elements, 1).add(of.matrices * down * across, 4).add(inputs, 4).total();
}
/// qweight, qzeros, scales.
[[nodiscard]] constexpr ByteSum grouped_sum(QuantScheme const& scheme, PackedExtents const& of) {
    auto const groups = groups_of(of.inputs, scheme.group);
    ByteSum sum;
    sum.add_bits(of.elements, scheme.bits).add_bits(of.matrices * groups * of.outputs, scheme.bits);
    return sum.add(of.matrices * groups * of.outputs, 2);
}
[[nodiscard]] constexpr Optional<std::int64_t> awq_bytes(QuantScheme const& scheme, PackedExtents const& of) {
    return grouped_sum(scheme, of).total();
}
/// The same, and g_idx.
[[nodiscard]] constexpr Optional<std::int64_t> gptq_bytes(QuantScheme const& scheme, PackedExtents const& of) {
    return grouped_sum(scheme, of).add(of.matrices * of.inputs, 4).total();
}
/// blocks [..., in / 32, 16], scales [..., in / 32].
[[nodiscard]] constexpr Optional<std::int64_t> mxfp4_bytes(QuantScheme const&, PackedExtents const& of) {
    return ByteSum().add(of.elements / 32, 16 + 1).total();
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
