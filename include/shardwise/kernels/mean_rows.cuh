// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/mean_rows_call.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A thread adds up the rows of its columns, so that their order is that of the rows whatever lies beside them.
template <class T, unsigned width>
__global__ void __launch_bounds__(row_threads, 2) mean_portions(MeanRowsCall<T> call, PortionGrid grid) {
    for_portions<width>(grid, call.rows, call.width, [&](std::int64_t index, std::int64_t at) {
        std::int64_t const first = index == 0 ? 0 : std::int64_t{call.last_rows[index - 1]} + 1;
        std::int64_t end = std::int64_t{call.last_rows[index]} + 1;
        if (first < 0 || end > call.in_rows) end = first;
        float sums[width] = {};
        for (auto begin = first; begin < end; begin += mean_rows_together) {
            auto const stop = end - begin < mean_rows_together ? end : begin + mean_rows_together;
            float parts[width] = {};
            SHARDWISE_DEVICE_ROLL
            for (auto row = begin; row < stop; ++row) {
                Portion<T, width> portion;
                float values[width];
                portion.load(call.in + row * call.in_row + at);
                portion.get(values);
                SHARDWISE_DEVICE_UNROLL
                for (unsigned i = 0; i < width; ++i) parts[i] += values[i];
            }
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < width; ++i) sums[i] += parts[i];
        }
        auto const count = first < end ? static_cast<float>(end - first) : 1.0F;
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < width; ++i) sums[i] /= count;
        Portion<T, width> mean;
        mean.set(sums);
        mean.store(call.out + index * call.out_row + at);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
