// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/detail/gemm_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The tile of `out` that a block computes, and the depth that it stages at a time. A thread keeps tile / side squared sums.
struct GemmTile {
    static constexpr int side = 64;
    static constexpr int depth = 16;
    static constexpr int threads_per_side = 16;
    static constexpr int threads = threads_per_side * threads_per_side;
    static constexpr int sums = side / threads_per_side;
};

template <class T, class Out>
__global__ void __launch_bounds__(GemmTile::threads) multiply_tiles(GemmCall call) {
    constexpr int side = GemmTile::side;
    constexpr int depth = GemmTile::depth;
    constexpr int sums = GemmTile::sums;
    __shared__ float a_tile[depth][side + 1];
    __shared__ float b_tile[depth][side + 1];
    auto const thread = static_cast<int>(threadIdx.x);
    auto const column_tiles = (call.n + side - 1) / side;
    auto const row_tiles = (call.m + side - 1) / side;
    auto const* const a = static_cast<T const*>(call.a.data);
    auto const* const b = static_cast<T const*>(call.b.data);
    // Neighbouring threads read neighbouring elements: along the inner extent where a row is contiguous, across it else.
    bool const a_along = call.a.column == 1;
    bool const b_across = call.b.column == 1;
    auto const row_in_tile = thread / GemmTile::threads_per_side;
    auto const column_in_tile = thread % GemmTile::threads_per_side;

    for (std::int64_t tile = blockIdx.x; tile < row_tiles * column_tiles; tile += gridDim.x) {
        auto const first_row = tile / column_tiles * side;
        auto const first_column = tile % column_tiles * side;
        float sum[sums][sums] = {};
        for (std::int64_t first_inner = 0; first_inner < call.k; first_inner += depth) {
            for (int i = thread; i < side * depth; i += GemmTile::threads) {
                auto const a_inner = a_along ? i % depth : i / side;
                auto const a_row = a_along ? i / depth : i % side;
                auto const row = first_row + a_row;
                bool const has_a = row < call.m && first_inner + a_inner < call.k;
                a_tile[a_inner][a_row] =
                    has_a ? widen(a[row * call.a.row + (first_inner + a_inner) * call.a.column]) : 0.0F;
                auto const b_inner = b_across ? i / side : i % depth;
                auto const b_column = b_across ? i % side : i / depth;
                auto const column = first_column + b_column;
                bool const has_b = column < call.n && first_inner + b_inner < call.k;
                b_tile[b_inner][b_column] =
                    has_b ? widen(b[(first_inner + b_inner) * call.b.row + column * call.b.column]) : 0.0F;
            }
            __syncthreads();
            for (int inner = 0; inner < depth; ++inner) {
                for (int i = 0; i < sums; ++i) {
                    auto const left = a_tile[inner][row_in_tile + i * GemmTile::threads_per_side];
                    for (int j = 0; j < sums; ++j) {
                        sum[i][j] += left * b_tile[inner][column_in_tile + j * GemmTile::threads_per_side];
                    }
                }
            }
            __syncthreads();
        }
        for (int i = 0; i < sums; ++i) {
            auto const row = first_row + row_in_tile + i * GemmTile::threads_per_side;
            for (int j = 0; j < sums; ++j) {
                auto const column = first_column + column_in_tile + j * GemmTile::threads_per_side;
                if (row >= call.m || column >= call.n) continue;
                auto& element = static_cast<Out*>(call.out)[row * call.out_row + column];
                narrow(call.accumulates ? widen(element) + sum[i][j] : sum[i][j], element);
            }
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
