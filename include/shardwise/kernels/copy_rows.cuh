// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/copy_rows_call.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class T, unsigned width>
__global__ void __launch_bounds__(row_threads, 2) copy_portions(CopyRowsCall<T> call, PortionGrid grid) {
    for_portions<width>(grid, call.rows, call.width, [&](std::int64_t index, std::int64_t at) {
        auto const row = call.numbers == nullptr ? index : call.numbers[index] - call.first;
        Portion<T, width> portion;
        if (row >= 0 && row < call.in_rows) {
            portion.load(call.in + row * call.in_row + at);
        } else {
            float const zeros[width] = {};
            portion.set(zeros);
        }
        portion.store(call.out + index * call.out_row + at);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
