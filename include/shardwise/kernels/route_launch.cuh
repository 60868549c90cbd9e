// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/route.cuh>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api>
Result<> launch_route(RouteCall const& call, typename Api::Stream stream) {
    constexpr std::int64_t max_blocks = 1 << 16;
    return DeviceLaunch<Api>::launch("route", SHARDWISE_KERNEL(route_tokens<route_threads>),
                                     std::min(call.tokens, max_blocks), route_threads, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
