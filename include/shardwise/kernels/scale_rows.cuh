// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/device_math.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>
#include <shardwise/kernels/detail/scale_rows_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class T, unsigned width>
__global__ void __launch_bounds__(row_threads, 2) scale_portions(ScaleRowsCall<T> call, PortionGrid grid) {
    for_portions<width>(grid, call.rows, call.width, [&](std::int64_t row, std::int64_t at) {
        Portion<T, width> portion;
        float values[width];
        portion.load(call.in + row * call.in_row + at);
        portion.get(values);
        auto const factor = device_activate(widen(call.gate[row * call.gate_row]), call.kind);
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < width; ++i) values[i] *= factor;
        portion.set(values);
        portion.store(call.out + row * call.out_row + at);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
