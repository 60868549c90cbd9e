// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/pack_device_row.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// How a format's rows lie on a device; kernels/detail/device_chunk.hpp reads them.
struct DeviceFormat {
    WeightFormat format;
    /// Bits of an element in the quants.
    std::int64_t quant_bits = 0;
    /// Bits of an element that lie apart, in planes of 32 elements.
    std::int64_t plane_bits = 0;
    /// Elements that share a scale: 0 where a row or a group does.
    std::int64_t scale_elements = 0;
    std::int64_t scale_bytes = 0;
    /// Bytes that the scales of 256 elements are multiplied by.
    std::int64_t super_bytes = 0;
    /// Brings a checkpoint's row into that order; null for a format that devices do not multiply by.
    void (*pack)(StoredRow const& row, std::int64_t inputs, DeviceRow const& to) = nullptr;
};

// clang-format off
/// Every format in the order of the enumeration.
inline constexpr std::array<DeviceFormat, 15> device_format_table{{
    {WeightFormat::f32,   32, 0,  0, 0, 0, &pack_device_bytes<4>},
    {WeightFormat::bf16,  16, 0,  0, 0, 0, &pack_device_bytes<2>},
    {WeightFormat::f16,   16, 0,  0, 0, 0, &pack_device_bytes<2>},
    {WeightFormat::int8,   8, 0,  0, 4, 0, &pack_device_int8},
    {WeightFormat::int4,   4, 0,  0, 2, 0, &pack_device_int4},
    {WeightFormat::nf4,    4, 0, 64, 4, 0, &pack_device_nf4},
    {WeightFormat::mxfp4,  4, 0, 32, 1, 0, &pack_device_mxfp4},
    {WeightFormat::q4_0,   4, 0, 32, 2, 0, &pack_device_blocks<Q4Block<2>>},
    {WeightFormat::q4_1,   4, 0, 32, 4, 0, &pack_device_blocks<Q4Block<4>>},
    {WeightFormat::q5_0,   4, 1, 32, 2, 0, &pack_device_blocks<Q5Block<2>>},
    {WeightFormat::q5_1,   4, 1, 32, 4, 0, &pack_device_blocks<Q5Block<4>>},
    {WeightFormat::q8_0,   8, 0, 32, 2, 0, &pack_device_q8_0},
    {WeightFormat::q4_k,   4, 0, 32, 2, 4, &pack_device_blocks<Q4SuperBlock>},
    {WeightFormat::q5_k,   4, 1, 32, 2, 4, &pack_device_blocks<Q5SuperBlock>},
    {WeightFormat::q6_k,   4, 2, 32, 2, 2, &pack_device_blocks<Q6SuperBlock>},
}};
// clang-format on
static_assert(has_each_format(device_format_table), "device_format_table says of each format whether devices run it");

template <class Block>
[[nodiscard]] constexpr bool packs(WeightFormat format) {
    auto const& row = device_format_table[static_cast<std::size_t>(format)];
    auto const& of = traits(format);
    return of.block_elements == Block::elements && of.block_bytes == Block::bytes &&
           row.plane_bits == std::int64_t{Block::high_bits} && row.scale_bytes == Block::scale_bytes &&
           row.super_bytes == Block::super_bytes && row.pack == &pack_device_blocks<Block>;
}
static_assert(packs<Q4Block<2>>(WeightFormat::q4_0) && packs<Q4Block<4>>(WeightFormat::q4_1) &&
                  packs<Q5Block<2>>(WeightFormat::q5_0) && packs<Q5Block<4>>(WeightFormat::q5_1) &&
                  packs<Q4SuperBlock>(WeightFormat::q4_k) && packs<Q5SuperBlock>(WeightFormat::q5_k) &&
                  packs<Q6SuperBlock>(WeightFormat::q6_k),
              "the blocks that are packed have the sizes of their formats' rows");

[[nodiscard]] constexpr DeviceFormat const& device_format(WeightFormat format) {
    return device_format_table[static_cast<std::size_t>(format)];
}

}  // namespace detail

/// True where a device multiplies by weights of a format as they are.
[[nodiscard]] constexpr bool has_device_products(WeightFormat format) {
    return detail::device_format(format).pack != nullptr;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
