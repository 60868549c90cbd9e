// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/backend/device_format.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/kernel_list.hpp>
#include <shardwise/kernels/multiply_sums.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, WeightFormat format, int rows, SumsLayout layout>
Result<> launch_multiply_sums_rows(MultiplySumsCall const& call, typename Api::Stream stream) {
    // What is more runs in the kernel's loop.
    constexpr std::int64_t max_blocks = 1 << 20;
    auto const output_blocks = (call.weight.outputs - 1) / sums_outputs + 1;
    auto const row_groups = (call.rows - 1) / rows + 1;
    auto const blocks = output_blocks < max_blocks / row_groups ? output_blocks * row_groups : max_blocks;
    return launch_by_element<Api>("multiply_sums", call.in_element, [&](auto element) -> Result<> {
        return DeviceLaunch<Api>::launch("multiply_sums",
                                         SHARDWISE_KERNEL(multiply_sums<Api, format, rows, layout, decltype(element)>),
                                         blocks, sums_threads, stream, call);
    });
}

/// One row at a time, or four, which share what is read and decoded of the weight.
template <class Api, WeightFormat format, SumsLayout layout>
Result<> launch_multiply_sums_in(MultiplySumsCall const& call, typename Api::Stream stream) {
    if (call.rows == 1) return launch_multiply_sums_rows<Api, format, 1, layout>(call, stream);
    return launch_multiply_sums_rows<Api, format, 4, layout>(call, stream);
}

template <class Api, WeightFormat format>
Result<> launch_multiply_sums_as(MultiplySumsCall const& call, typename Api::Stream stream) {
    using Chunk = DeviceChunk<format>;
    static_assert(Chunk::elements * device_format(format).quant_bits == 128, "as sums_layout has it");
    switch (call.layout) {
        case SumsLayout::chunks:
            return launch_multiply_sums_in<Api, format, SumsLayout::chunks>(call, stream);
        case SumsLayout::fours:
            // Others have chunks of four, or blocks.
            if constexpr (Chunk::begins_anywhere && Chunk::elements > 4)
                return launch_multiply_sums_in<Api, format, SumsLayout::fours>(call, stream);
            break;
        case SumsLayout::any:
            break;
    }
    return launch_multiply_sums_rows<Api, format, 1, SumsLayout::any>(call, stream);
}

template <class Api>
Result<> launch_multiply_sums(MultiplySumsCall const& call, typename Api::Stream stream) {
    return launch_by_format<Api>("multiply_sums", call.weight.format, [&](auto format) -> Result<> {
        return launch_multiply_sums_as<Api, decltype(format)::value>(call, stream);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
