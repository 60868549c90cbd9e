// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/kernel_list.hpp>
#include <shardwise/kernels/gemm.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T>
Result<> launch_gemm(GemmCall const& call, typename Api::Stream stream) {
    if constexpr (kernel_list<Api>.has(row_element<T>)) {
        constexpr std::int64_t max_blocks = 1 << 16;
        auto const tiles =
            ((call.m + GemmTile::side - 1) / GemmTile::side) * ((call.n + GemmTile::side - 1) / GemmTile::side);
        auto* const kernel = call.out_element == RowElement::f32 ? SHARDWISE_KERNEL(multiply_tiles<T, float>)
                                                                 : SHARDWISE_KERNEL(multiply_tiles<T, T>);
        return DeviceLaunch<Api>::launch("gemm", kernel, tiles < max_blocks ? tiles : max_blocks, GemmTile::threads,
                                         stream, call);
    } else {
        return left_out("gemm", element_name(row_element<T>));
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
