// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/portion_grid.hpp>
#include <shardwise/kernels/detail/row_team.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Calls body(row, first column) for each portion of `width` columns, of rows that are made of them.
template <unsigned width, class Body>
__device__ void for_portions(PortionGrid const& grid, std::int64_t rows, std::int64_t columns, Body const& body) {
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lanes = std::int64_t{1} << grid.lane_shift;
    auto const row_block = blockIdx.x / grid.column_blocks;
    auto const column_block = blockIdx.x - row_block * grid.column_blocks;
    auto const rows_at_once = static_cast<std::int64_t>(row_threads >> grid.lane_shift);
    auto const row_step = static_cast<std::int64_t>(gridDim.x / grid.column_blocks) * rows_at_once;
    auto const column_step = grid.column_blocks * lanes * width;
    for (auto row = row_block * rows_at_once + (thread >> grid.lane_shift); row < rows; row += row_step) {
        for (auto at = (column_block * lanes + (thread & (lanes - 1))) * width; at < columns; at += column_step) {
            body(row, at);
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
