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

    /// Portions of a row that a thread keeps in registers: rows of up to 16 Ki elements of 16 bits are read once by a block.
    static constexpr int kept = is_warp ? 4 : 8;

    static constexpr __device__ int threads() { return size; }
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

/// A block of as many threads as rows of a width ask for, so that each keeps little of it in registers and more blocks run at once:
/// wide_threads. A row's sums depend on its width and the device's kind alone.
template <class Api>
struct WideTeam {
    static constexpr int rows = 1;
    static constexpr int kept = 2;
    static constexpr int most = 1024;

    static __device__ int threads() { return static_cast<int>(blockDim.x); }
    static __device__ int lane() { return static_cast<int>(threadIdx.x); }
    static __device__ std::int64_t row() { return 0; }
    static __device__ float sum(float value) { return any_block_sum<Api>(value); }
};

/// The threads of a WideTeam for rows of so many portions.
[[nodiscard]] constexpr int wide_threads(std::int64_t portions) {
    return portions <= 512 ? 256 : portions <= 1024 ? 512 : 1024;
}

/// The weights of a row of heads: rows, fewer than 2^31, take `call.weights` rows of weights in turn.
template <class Call>
__device__ auto const* head_weight(Call const& call, std::int64_t row) {
    auto const turn = static_cast<std::uint32_t>(row) % static_cast<std::uint32_t>(call.weights);
    return call.weight + std::int64_t{turn} * call.width;
}

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
