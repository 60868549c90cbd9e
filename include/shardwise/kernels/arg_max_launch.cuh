// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/arg_max.cuh>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api>
Result<> launch_arg_max(std::string_view name, ArgMaxCall const& call, typename Api::Stream stream) {
    constexpr std::int64_t max_blocks = 1 << 14;
    auto const launch = [&](void (*kernel)(ArgMaxCall), std::int64_t blocks) {
        return DeviceLaunch<Api>::launch(name, kernel, std::min(blocks, max_blocks), arg_max_threads, stream, call);
    };
    bool const has_keys = call.keys != nullptr && call.ids != nullptr;
    if (has_keys) return launch(SHARDWISE_KERNEL(find_ids<arg_max_threads>), (call.rows - 1) / arg_max_threads + 1);
    constexpr unsigned pack = pack_elements<float>;
    bool const is_packed = has_packs(call.logits, call.rows, call.row, call.width);
    return launch(is_packed ? SHARDWISE_KERNEL(find_largest<pack>) : SHARDWISE_KERNEL(find_largest<1>), call.rows);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
