// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/block_sum.cuh>
#include <shardwise/backend/detail/device_code.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int row_threads = 256;

/// The threads that share a row: those of a block, or of a warp where rows are narrow. A row's sums depend on its width and the
/// device's kind alone.
template <class Api, bool is_warp>
struct RowTeam {
    static constexpr int warp = DeviceCode<Api>::warp_size;
    static constexpr int size = is_warp ? warp : row_threads;
    /// Rows that a block works on at once.
    static constexpr int rows = row_threads / size;

    static __device__ int lane() { return static_cast<int>(threadIdx.x) % size; }
    static __device__ std::int64_t row() { return static_cast<std::int64_t>(threadIdx.x) / size; }
    static __device__ float sum(float value) {
        if constexpr (is_warp) {
            return warp_sum<Api>(value);
        } else {
            return block_sum<Api, row_threads>(value);
        }
    }
    static __device__ float greatest(float value) {
        if constexpr (is_warp) {
            return warp_greatest<Api>(value);
        } else {
            return block_greatest<Api, row_threads>(value);
        }
    }
};

/// Calls body(row, whether there is one) for the rows of a block, equally often for all of its threads.
template <class Team, class Body>
__device__ void for_rows(std::int64_t rows, Body const& body) {
    for (auto first = static_cast<std::int64_t>(blockIdx.x) * Team::rows; first < rows;
         first += static_cast<std::int64_t>(gridDim.x) * Team::rows) {
        auto const row = first + Team::row();
        body(row, row < rows);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
