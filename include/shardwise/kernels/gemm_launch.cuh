// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/gemm.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T>
Result<> launch_gemm(GemmCall const& call, typename Api::Stream stream) {
    constexpr std::int64_t max_blocks = 1 << 16;
    auto const tiles =
        ((call.m + GemmTile::side - 1) / GemmTile::side) * ((call.n + GemmTile::side - 1) / GemmTile::side);
    return DeviceLaunch<Api>::launch("gemm", &multiply_tiles<T>, tiles < max_blocks ? tiles : max_blocks,
                                     GemmTile::threads, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
