// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/weight_format.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Whether devices multiply by a format as it is; of one that runs, kernels/detail/device_chunk.hpp reads the elements.
enum class DeviceProduct : std::uint8_t { refused, runs };

struct DeviceFormat {
    WeightFormat format;
    DeviceProduct product;
};

/// Every format in the order of the enumeration.
inline constexpr std::array<DeviceFormat, 15> device_format_table{{
    {WeightFormat::f32, DeviceProduct::runs},
    {WeightFormat::bf16, DeviceProduct::runs},
    {WeightFormat::f16, DeviceProduct::runs},
    {WeightFormat::int8, DeviceProduct::runs},
    {WeightFormat::int4, DeviceProduct::refused},
    {WeightFormat::nf4, DeviceProduct::refused},
    {WeightFormat::mxfp4, DeviceProduct::refused},
    {WeightFormat::q4_0, DeviceProduct::runs},
    {WeightFormat::q4_1, DeviceProduct::refused},
    {WeightFormat::q5_0, DeviceProduct::refused},
    {WeightFormat::q5_1, DeviceProduct::refused},
    {WeightFormat::q8_0, DeviceProduct::runs},
    {WeightFormat::q4_k, DeviceProduct::refused},
    {WeightFormat::q5_k, DeviceProduct::refused},
    {WeightFormat::q6_k, DeviceProduct::refused},
}};
static_assert(has_each_format(device_format_table), "device_format_table says of each format whether devices run it");

}  // namespace detail

/// True where a device multiplies by weights of a format as they are.
[[nodiscard]] constexpr bool has_device_products(WeightFormat format) {
    return detail::device_format_table[static_cast<std::size_t>(format)].product == detail::DeviceProduct::runs;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
