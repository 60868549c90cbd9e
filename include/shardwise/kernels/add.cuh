// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/add_call.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class T, class Other, unsigned width>
__global__ void __launch_bounds__(row_threads, 2) add_portions(AddCall<T, Other> call, PortionGrid grid) {
    for_portions<width>(grid, call.rows, call.width, [&](std::int64_t row, std::int64_t at) {
        Portion<T, width> portion;
        float values[width];
        if (call.a == nullptr) {
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < width; ++i) values[i] = call.factor;
        } else {
            portion.load(call.a + row * call.a_row + at);
            portion.get(values);
            if (call.b == nullptr) {
                SHARDWISE_DEVICE_UNROLL
                for (unsigned i = 0; i < width; ++i) values[i] *= call.factor;
            } else {
                float more[width];
                Portion<Other, width> other;
                other.load(call.b + row * call.b_row + at);
                other.get(more);
                SHARDWISE_DEVICE_UNROLL
                for (unsigned i = 0; i < width; ++i) values[i] += more[i];
            }
        }
        portion.set(values);
        portion.store(call.out + row * call.out_row + at);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
