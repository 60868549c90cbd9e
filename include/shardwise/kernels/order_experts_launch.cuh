// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/order_experts.cuh>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api>
Result<> launch_order_experts(OrderExpertsCall const& call, typename Api::Stream stream) {
    constexpr std::int32_t max_blocks = 1 << 16;
    return DeviceLaunch<Api>::launch("order_experts", SHARDWISE_KERNEL(order_pairs<order_threads>),
                                     std::min(call.experts, max_blocks), order_threads, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
