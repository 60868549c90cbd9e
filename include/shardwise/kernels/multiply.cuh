// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/block_sum.cuh>
#include <shardwise/backend/detail/device_calls.hpp>
#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/device_format.hpp>
#include <shardwise/kernels/detail/device_chunk.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int multiply_threads = 256;

/// A warp makes one output of `rows` rows at a time: its threads take the weight's row chunk by chunk in turn.
template <class Api, WeightFormat format, std::size_t rows>
__global__ void __launch_bounds__(multiply_threads) multiply_rows(MultiplyCall call) {
    constexpr int warps = multiply_threads / Api::warp_size;
    constexpr int elements = DeviceChunk<format>::elements;
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lane = thread % Api::warp_size;
    auto const chunks = (call.weight.inputs + elements - 1) / elements;
    // All warps of a block go round equally often: HIP on the CPU shuffles by a barrier of the block.
    for (auto first = static_cast<std::int64_t>(blockIdx.x) * warps; first < call.weight.outputs;
         first += static_cast<std::int64_t>(gridDim.x) * warps) {
        auto const output = first + thread / Api::warp_size;
        for (std::int64_t first_row = 0; first_row < call.rows; first_row += static_cast<std::int64_t>(rows)) {
            float sums[rows] = {};
            for (std::int64_t chunk = lane; output < call.weight.outputs && chunk < chunks; chunk += Api::warp_size) {
                multiply_chunk<format, rows>(call, output, chunk, first_row, sums);
            }
            for (std::size_t row = 0; row < rows; ++row) {
                auto const out_row = first_row + static_cast<std::int64_t>(row);
                auto const sum = warp_sum<Api>(sums[row]);
                if (lane == 0 && output < call.weight.outputs && out_row < call.rows) {
                    call.out[out_row * call.out_row + output] = sum;
                }
            }
        }
    }
}

template <class Api, WeightFormat format>
Result<> launch_multiply_as(MultiplyCall const& call, typename Api::Stream stream) {
    constexpr std::int64_t most_blocks = 1 << 16;
    constexpr std::int64_t warps = multiply_threads / Api::warp_size;
    auto const tiles = (call.weight.outputs + warps - 1) / warps;
    auto const blocks = tiles < most_blocks ? tiles : most_blocks;
    auto const kernel = call.rows == 1 ? &multiply_rows<Api, format, 1> : &multiply_rows<Api, format, 4>;
    return DeviceCode<Api>::launch("multiply", kernel, blocks, multiply_threads, stream, call);
}

/// By the format's kernel; hold_weight makes no weight of a format that has none.
template <class Api, WeightFormat format>
Result<> launch_multiply_if_run(MultiplyCall const& call, typename Api::Stream stream) {
    if constexpr (has_device_products(format)) {
        return launch_multiply_as<Api, format>(call, stream);
    } else {
        return Error{ErrorCode::unsupported}.in("multiply").at(traits(format).name);
    }
}

template <class Api, std::size_t... format>
Result<> launch_multiply_of(MultiplyCall const& call, typename Api::Stream stream, std::index_sequence<format...>) {
    using Launch = Result<> (*)(MultiplyCall const&, typename Api::Stream);
    constexpr Launch launches[] = {&launch_multiply_if_run<Api, static_cast<WeightFormat>(format)>...};
    return launches[static_cast<std::size_t>(call.weight.format)](call, stream);
}

template <class Api>
Result<> launch_multiply(MultiplyCall const& call, typename Api::Stream stream) {
    return launch_multiply_of<Api>(call, stream, std::make_index_sequence<weight_format_count>{});
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
