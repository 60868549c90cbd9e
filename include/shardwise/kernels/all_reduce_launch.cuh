// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/all_reduce.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T>
Result<> launch_all_reduce(AllReduceCall const& call, typename Api::Stream stream) {
    return DeviceLaunch<Api>::launch("all_reduce", SHARDWISE_KERNEL(reduce_over_peers<Api, T>), call.blocks,
                                     all_reduce_threads, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
