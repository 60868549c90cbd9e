// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Launches a kernel over the portions of rows: `packed` where rows are made of packs of `pack` elements, else `single`.
template <class Api, class Call>
[[nodiscard]] Result<> launch_portions(std::string_view name, void (*single)(Call, PortionGrid),
                                       void (*packed)(Call, PortionGrid), unsigned pack, bool is_packed,
                                       std::int64_t rows, std::int64_t columns, typename Api::Stream stream,
                                       Call const& call) {
    // Several waves on any device; what is more runs in the kernel's loops.
    constexpr std::int64_t max_blocks = 1 << 14;
    auto const portions = is_packed ? columns / pack : columns;
    PortionGrid grid{0, 1};
    while ((1 << grid.lane_shift) < std::min<std::int64_t>(portions, row_threads)) ++grid.lane_shift;
    auto const row_blocks = std::min(max_blocks, (rows - 1) / (row_threads >> grid.lane_shift) + 1);
    auto const column_blocks = ((portions - 1) >> grid.lane_shift) + 1;
    grid.column_blocks =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(max_blocks / row_blocks, 1, column_blocks));
    return DeviceLaunch<Api>::launch(name, is_packed ? packed : single, row_blocks * grid.column_blocks, row_threads,
                                     stream, call, grid);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
