// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/portions_launch.cuh>
#include <shardwise/kernels/detail/rows_launch.cuh>
#include <shardwise/kernels/store_step.cuh>

#include <concepts>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The kernel for heads of bytes: four at once where words hold them, by warps where they have shuffles of their own.
template <class Api, class T>
[[nodiscard]] RowKernel<void(StoreStepCall<T, std::int8_t>)> choose_store(StoreStepCall<T, std::int8_t> const& call) {
    if (!DeviceCode<Api>::has_own_warps) return {SHARDWISE_KERNEL(store_bytes<Api, T, 1, false>), 1};
    constexpr auto rows = narrow_rows<Api>;
    bool const is_packed = has_packs(call.in, call.rows, call.in_row, call.width) && call.head_width % 4 == 0 &&
                           reinterpret_cast<std::uintptr_t>(call.memory) % 4 == 0 && call.memory_row % 4 == 0;
    if (is_packed) return {SHARDWISE_KERNEL(store_bytes<Api, T, 4, true>), rows};
    return {SHARDWISE_KERNEL(store_bytes<Api, T, 1, true>), rows};
}

template <class Api, class T, class Cache>
Result<> launch_store_step(StoreStepCall<T, Cache> const& call, typename Api::Stream stream) {
    if constexpr (std::same_as<Cache, std::int8_t>) {
        return launch_rows<Api>("store_rows", choose_store<Api, T>(call), call.rows * call.heads, stream, call);
    } else {
        constexpr unsigned pack = pack_elements<Cache>;
        bool const is_packed = has_packs(call.in, call.rows, call.in_row, call.width) &&
                               has_packs(call.memory, 2, call.memory_row, call.width);
        return launch_portions<Api, StoreStepCall<T, Cache>>(
            "store_rows", SHARDWISE_KERNEL(store_portions<T, Cache, 1>),
            SHARDWISE_KERNEL(store_portions<T, Cache, pack>), pack, is_packed, call.rows, call.width, stream, call);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
