// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>
#include <shardwise/kernels/detail/weigh_rows_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class T, unsigned width>
__global__ void __launch_bounds__(row_threads, 2) weigh_portions(WeighRowsCall<T> call, PortionGrid grid) {
    for_portions<width>(grid, call.pairs, call.width, [&](std::int64_t pair, std::int64_t at) {
        auto const token = pair / call.chosen;
        auto const weight = call.weights[token * call.weights_row + pair - token * call.chosen];
        Portion<T, width> portion;
        float values[width];
        portion.load(call.in + token * call.in_row + at);
        portion.get(values);
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < width; ++i) values[i] *= weight;
        portion.set(values);
        portion.store(call.out + call.places[pair] * call.out_row + at);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
