// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/kernel_list.hpp>
#include <shardwise/kernels/detail/multiply_tiles.cuh>
#include <shardwise/kernels/multiply.cuh>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, WeightFormat format, int rows, int outputs, int depth, bool is_aligned = true>
Result<> launch_multiply_rows(MultiplyCall const& call, typename Api::Stream stream) {
    // What is more runs in the kernel's loop.
    constexpr std::int64_t max_blocks = 1 << 20;
    constexpr std::int64_t block_outputs = multiply_threads / Api::warp_size * outputs;
    auto const output_blocks = (call.weight.outputs - 1) / block_outputs + 1;
    auto const row_groups = (call.rows - 1) / rows + 1;
    auto const blocks = output_blocks < max_blocks / row_groups ? output_blocks * row_groups : max_blocks;
    return launch_by_element<Api>("multiply", call.in_element, [&](auto element) -> Result<> {
        return DeviceLaunch<Api>::launch(
            "multiply",
            SHARDWISE_KERNEL(multiply_rows<Api, format, rows, outputs, depth, is_aligned, decltype(element)>), blocks,
            multiply_threads, stream, call);
    });
}

template <class Api, WeightFormat format, int rows, class T>
Result<> launch_multiply_tiles(MultiplyCall const& call, typename Api::Stream stream) {
    if constexpr (kernel_list<Api>.has(row_element<T>)) {
        constexpr std::int64_t max_blocks = 1 << 20;
        auto const blocks = ((call.weight.outputs - 1) / matrix_outputs + 1) * ((call.rows - 1) / rows + 1);
        return DeviceLaunch<Api>::launch("multiply", SHARDWISE_KERNEL(multiply_tiles<Api, format, rows, T>),
                                         blocks < max_blocks ? blocks : max_blocks, matrix_threads, stream, call);
    } else {
        return left_out("multiply", element_name(row_element<T>));
    }
}

/// What is how many at once was tried on an H200 with weights of 4096 x 14336 and 14336 x 4096.
template <class Api, WeightFormat format>
Result<> launch_multiply_as(MultiplyCall const& call, typename Api::Stream stream) {
    constexpr int most = MultiplyStage<Api, format>::max_rows;
    if constexpr (DeviceChunk<format>::begins_anywhere) {
        if (reinterpret_cast<std::uintptr_t>(call.weight.rows) % 16 != 0)
            return launch_multiply_rows<Api, format, std::min(4, most), multiply_outputs, 1, false>(call, stream);
    }
    // fp32 of many rows is the vendor's.
    if constexpr (MatrixTile<Api>::is_there && format != WeightFormat::f32) {
        if (call.has_tiles && call.rows > 24 && call.rows > MatrixTile<Api>::few_results / call.weight.outputs) {
            switch (call.in_element) {
                case RowElement::f32:
                    return launch_multiply_tiles<Api, format, 64, float>(call, stream);
                case RowElement::bf16:
                    return launch_multiply_tiles<Api, format, 64, Bfloat16>(call, stream);
                case RowElement::f16:
                    return launch_multiply_tiles<Api, format, 64, Float16>(call, stream);
            }
        }
    }
    if (call.rows == 1) {
        constexpr int outputs = format == WeightFormat::q6_k ? 1 : 2;
        return launch_multiply_rows<Api, format, 1, outputs, 4 / outputs>(call, stream);
    }
    if (call.rows == 2) return launch_multiply_rows<Api, format, 2, multiply_outputs, 1>(call, stream);
    if (call.rows <= 4 && most > 4) return launch_multiply_rows<Api, format, 4, multiply_outputs, 1>(call, stream);
    return launch_multiply_rows<Api, format, most, multiply_outputs, 1>(call, stream);
}

template <class Api>
Result<> launch_multiply(MultiplyCall const& call, typename Api::Stream stream) {
    return launch_by_format<Api>("multiply", call.weight.format, [&](auto format) -> Result<> {
        return launch_multiply_as<Api, decltype(format)::value>(call, stream);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
