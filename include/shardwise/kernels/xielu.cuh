// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/device_math.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>
#include <shardwise/kernels/detail/xielu_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class T, unsigned width>
__global__ void __launch_bounds__(row_threads, 2) xielu_portions(XieluCall<T> call, PortionGrid grid) {
    auto const alpha_p = call.numbers[0];
    auto const alpha_n = call.numbers[1];
    auto const beta = call.numbers[2];
    auto const eps = call.numbers[3];
    for_portions<width>(grid, call.rows, call.width, [&](std::int64_t row, std::int64_t at) {
        Portion<T, width> portion;
        float values[width];
        portion.load(call.in + row * call.in_row + at);
        portion.get(values);
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < width; ++i) {
            auto const x = values[i];
            // A NaN is kept: eps is not less.
            auto const bounded = eps < x ? eps : x;
            values[i] = x > 0.0F ? alpha_p * x * x + beta * x : (device_expm1(bounded) - x) * alpha_n + beta * x;
        }
        portion.set(values);
        portion.store(call.out + row * call.out_row + at);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
