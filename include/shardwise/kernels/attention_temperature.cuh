// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/attention_temperature_call.hpp>
#include <shardwise/kernels/detail/device_math.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class T, unsigned width>
__global__ void __launch_bounds__(row_threads, 2) tune_portions(AttentionTemperatureCall<T> call, PortionGrid grid) {
    for_portions<width>(grid, call.rows, call.width, [&](std::int64_t row, std::int64_t at) {
        // What is left of a number of at least 0 is its floor.
        auto const steps = static_cast<std::int64_t>((static_cast<float>(call.positions[row]) + 1.0F) / call.step);
        auto const factor = device_log(1.0F + static_cast<float>(steps)) * call.growth + 1.0F;
        Portion<T, width> portion;
        float values[width];
        portion.load(call.values + row * call.row + at);
        portion.get(values);
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < width; ++i) values[i] *= factor;
        portion.set(values);
        portion.store(call.values + row * call.row + at);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
