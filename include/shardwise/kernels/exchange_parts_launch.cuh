// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/exchange_parts.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T>
Result<> launch_exchange_parts(PeerPartsCall const& call, typename Api::Stream stream) {
    auto const launch = [&](std::string_view name, void (*kernel)(PeerPartsCall)) {
        return DeviceLaunch<Api>::launch(name, kernel, call.base.blocks, all_reduce_threads, stream, call);
    };
    switch (call.base.kind) {
        case PeerCall::all_gather:
            return launch("all_gather", SHARDWISE_KERNEL(exchange_over_peers<Api, T, PeerCall::all_gather>));
        case PeerCall::reduce_scatter:
            return launch("reduce_scatter", SHARDWISE_KERNEL(exchange_over_peers<Api, T, PeerCall::reduce_scatter>));
        case PeerCall::all_to_all:
            return launch("all_to_all", SHARDWISE_KERNEL(exchange_over_peers<Api, T, PeerCall::all_to_all>));
        case PeerCall::all_reduce:
            break;
    }
    return Error{ErrorCode::invalid_argument}.in("peers").because("an all_reduce has no parts");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
