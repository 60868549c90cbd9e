// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/activation_call.hpp>
#include <shardwise/kernels/detail/device_math.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class T, unsigned width>
__global__ void __launch_bounds__(row_threads, 2) activate_portions(ActivationCall<T> call, PortionGrid grid) {
    for_portions<width>(grid, call.rows, call.width, [&](std::int64_t row, std::int64_t at) {
        Portion<T, width> portion;
        float values[width];
        portion.load(call.in + row * call.in_row + at);
        portion.get(values);
        if (call.up == nullptr) {
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < width; ++i) values[i] = device_activate(values[i], call.kind);
        } else {
            float factors[width];
            portion.load(call.up + row * call.up_row + at);
            portion.get(factors);
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < width; ++i) values[i] = device_gate(values[i], factors[i], call.kind);
        }
        portion.set(values);
        portion.store(call.out + row * call.out_row + at);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
