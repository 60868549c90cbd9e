// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/norm_rows.cuh>
#include <shardwise/kernels/detail/row_team.cuh>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A kernel over rows, and how many of them a block of it works on at once.
template <class Kernel>
struct RowKernel {
    Kernel* kernel;
    std::int64_t rows_at_once;
    int threads = row_threads;
};

/// Rows that a block works on at once where a warp has one, at least.
template <class Api>
inline constexpr std::int64_t narrow_rows = row_threads / widest_warp<Api>;

/// The kernel for rows of a width: with packs where rows are made of them, by warps where they are narrow, too.
template <class Api, class Kernel>
[[nodiscard]] RowKernel<Kernel> choose_rows(std::int64_t width, bool is_packed, Kernel* single, Kernel* packed,
                                            Kernel* narrow) {
    if (!is_packed) return {single, 1};
    if (width > narrow_row || !DeviceCode<Api>::has_own_warps) return {packed, 1};
    return {narrow, narrow_rows<Api>};
}

/// The same for RMS norms, where a block has as many threads as a row asks for.
template <class Api, class Kernel>
[[nodiscard]] RowKernel<Kernel> choose_norm(std::int64_t width, unsigned pack, bool is_packed, Kernel* single,
                                            Kernel* packed, Kernel* narrow) {
    auto chosen = choose_rows<Api, Kernel>(width, is_packed, single, packed, narrow);
    if (chosen.rows_at_once == 1) chosen.threads = wide_threads(is_packed ? width / pack : width);
    return chosen;
}

template <class Api, class Call>
[[nodiscard]] Result<> launch_rows(std::string_view name, RowKernel<void(Call)> const& chosen, std::int64_t rows,
                                   typename Api::Stream stream, Call const& call) {
    constexpr std::int64_t max_blocks = 1 << 16;
    auto const blocks = (rows + chosen.rows_at_once - 1) / chosen.rows_at_once;
    return DeviceLaunch<Api>::launch(name, chosen.kernel, blocks < max_blocks ? blocks : max_blocks, chosen.threads,
                                     stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
