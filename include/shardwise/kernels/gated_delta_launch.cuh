// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/rows_launch.cuh>
#include <shardwise/kernels/gated_delta.cuh>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T>
Result<> launch_gated_delta(GatedDeltaCall<T> const& call, typename Api::Stream stream) {
    constexpr std::int64_t max_blocks = 1 << 16;
    constexpr std::int64_t gate_rows = DeviceCode<Api>::has_own_warps ? narrow_rows<Api> : 1;
    auto const value_heads = std::int64_t{call.heads} * call.values_per_key;
    auto const launch = [&](void (*kernel)(GatedDeltaCall<T>), std::int64_t blocks) {
        return DeviceLaunch<Api>::launch("gated_delta", kernel, std::min(blocks, max_blocks), row_threads, stream,
                                         call);
    };
    if (auto const done = launch(SHARDWISE_KERNEL(delta_mix<Api, T>), call.tokens * call.heads); !done) return done;
    auto const slices = (call.value_dim - 1) / delta_columns + 1;
    if (auto const done = launch(SHARDWISE_KERNEL(delta_rule<Api, T>), value_heads * slices); !done) return done;
    return launch(SHARDWISE_KERNEL(delta_gate<Api, T>), (call.tokens * value_heads - 1) / gate_rows + 1);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
