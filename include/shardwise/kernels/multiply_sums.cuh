// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/block_sum.cuh>
#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/multiply_sums_call.hpp>
#include <shardwise/kernels/detail/device_chunk.hpp>
#include <shardwise/kernels/detail/exact_math.hpp>
#include <shardwise/kernels/multiply.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A range of a weight's inputs, of which it is told where it begins and ends.
[[nodiscard]] __device__ inline DeviceWeightView range_of(MultiplySumsCall const& call, std::int64_t begin,
                                                          std::int64_t end) {
    auto range = call.product.weight;
    range.inputs = end - begin;
    range.rows += begin * call.quant_bits / 8;
    range.planes += begin / 32 * call.plane_bytes;
    if (call.scale_elements > 0) range.scales += begin / call.scale_elements * call.scale_bytes;
    range.supers += begin / 256 * call.super_bytes;
    return range;
}

/// The sums of a tree over products by ranges of a weight's inputs: each product as multiply_rows makes it, each addition as of rows in
/// memory. What is not yet added stays in registers.
template <class Api, WeightFormat format, int rows, int outputs, bool is_aligned, class Staged>
__global__ void __launch_bounds__(multiply_threads, 2) multiply_sums(MultiplySumsCall call) {
    using Chunk = DeviceChunk<format>;
    constexpr int warp = DeviceCode<Api>::warp_size;
    using Products = RowProducts<Api, format, rows, outputs, 1, is_aligned, Staged>;
    __shared__ float codes[16];
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lane = thread % warp;
    if constexpr (Chunk::has_codes) {
        if (thread < 16) Chunk::fill_codes(codes, thread);
    }
    auto const& product = call.product;
    constexpr int block_outputs = multiply_threads / warp * outputs;
    auto const row_groups = (product.rows + rows - 1) / rows;
    auto const tiles = (product.weight.outputs + block_outputs - 1) / block_outputs * row_groups;
    for (auto tile = static_cast<std::int64_t>(blockIdx.x); tile < tiles; tile += gridDim.x) {
        auto const first_row = tile % row_groups * rows;
        auto const first_output = tile / row_groups * block_outputs + thread / warp * outputs;
        constexpr int width = SpreadSums<Api, outputs * rows>::width;
        float waiting[max_sum_depth][width];
        int held = 0;
        std::int64_t result = 0;
        for (int leaf = 0; leaf < call.leaves; ++leaf) {
            auto const begin = call.begins[leaf];
            auto const range = range_of(call, begin, call.begins[leaf + 1]);
            float sums[outputs * rows] = {};
            auto const* const in = static_cast<Staged const*>(product.in) + (begin - call.begins[0]);
            Products::add(product, range, in, first_row, first_output, codes, sums);
            SpreadSums<Api, outputs * rows> const spread(sums, lane);
            auto const merges = static_cast<int>(call.merges[leaf]);
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < width; ++i) {
                auto const output = first_output + (spread.first + i) / rows;
                auto sum = sums[i];
                // Outputs that are not there have no scale.
                if constexpr (Chunk::has_row_scale) {
                    if (output < range.outputs) sum = product_of(sum, Chunk::row_scale(range, output));
                }
                SHARDWISE_DEVICE_UNROLL
                for (int depth = max_sum_depth - 1; depth >= 0; --depth) {
                    if (depth < held && depth >= held - merges) sum = waiting[depth][i] + sum;
                }
                SHARDWISE_DEVICE_UNROLL
                for (int depth = 0; depth < max_sum_depth; ++depth) {
                    if (depth == held - merges) waiting[depth][i] = sum;
                }
                auto const row = first_row + (spread.first + i) % rows;
                if (!call.ends[leaf] || !spread.is_owner || output >= range.outputs || row >= product.rows) continue;
                static_cast<float*>(product.out)[result * call.out_sum + row * product.out_row + output] = sum;
            }
            held = call.ends[leaf] ? 0 : held - merges + 1;
            if (call.ends[leaf]) ++result;
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
