// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/block_sum.cuh>
#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/multiply_call.hpp>
#include <shardwise/kernels/detail/device_chunk.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int multiply_threads = 256;

/// A warp makes one output of `rows` rows at a time: its threads take the weight's row chunk by chunk in turn.
template <class Api, WeightFormat format, unsigned rows>
__global__ void __launch_bounds__(multiply_threads, 2) multiply_rows(MultiplyCall call) {
    constexpr int warp = DeviceCode<Api>::warp_size;
    constexpr int warps = multiply_threads / warp;
    constexpr int elements = DeviceChunk<format>::elements;
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lane = thread % warp;
    auto const chunks = (call.weight.inputs + elements - 1) / elements;
    // All warps of a block go round equally often: HIP on the CPU shuffles by a barrier of the block.
    for (auto first = static_cast<std::int64_t>(blockIdx.x) * warps; first < call.weight.outputs;
         first += static_cast<std::int64_t>(gridDim.x) * warps) {
        auto const output = first + thread / warp;
        for (std::int64_t first_row = 0; first_row < call.rows; first_row += rows) {
            float sums[rows] = {};
            for (std::int64_t chunk = lane; output < call.weight.outputs && chunk < chunks; chunk += warp) {
                multiply_chunk<format, rows>(call, output, chunk, first_row, sums);
            }
            SHARDWISE_DEVICE_UNROLL
            for (unsigned row = 0; row < rows; ++row) {
                auto const out_row = first_row + row;
                auto const sum = warp_sum<Api>(sums[row]);
                if (lane == 0 && output < call.weight.outputs && out_row < call.rows) {
                    call.out[out_row * call.out_row + output] = sum;
                }
            }
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
