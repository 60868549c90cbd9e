// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/attention_temperature.cuh>
#include <shardwise/kernels/detail/portions_launch.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T>
Result<> launch_attention_temperature(AttentionTemperatureCall<T> const& call, typename Api::Stream stream) {
    constexpr unsigned pack = pack_elements<T>;
    return launch_portions<Api, AttentionTemperatureCall<T>>(
        "attention_temperature", SHARDWISE_KERNEL(tune_portions<T, 1>), SHARDWISE_KERNEL(tune_portions<T, pack>), pack,
        has_packs(call.values, call.rows, call.row, call.width), call.rows, call.width, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
