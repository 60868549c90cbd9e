// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/combine_rows_call.hpp>
#include <shardwise/kernels/detail/exact_math.hpp>
#include <shardwise/kernels/detail/load_floats.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class T, unsigned width>
__global__ void __launch_bounds__(row_threads, 2) combine_portions(CombineRowsCall<T> call, PortionGrid grid) {
    for_portions<width>(grid, call.rows, call.width, [&](std::int64_t token, std::int64_t at) {
        float sums[width] = {};
        auto const* const places = call.places + token * call.chosen;
        auto const* const weights = call.weights + token * call.weights_row;
        for (std::int64_t i = 0; i < call.chosen; ++i) {
            float values[width];
            load_floats(call.in + places[i] * call.in_row + at, values);
            auto const weight = weights[i];
            SHARDWISE_DEVICE_UNROLL
            for (unsigned k = 0; k < width; ++k) sums[k] += product_of(weight, values[k]);
        }
        Portion<T, width> portion;
        portion.set(sums);
        portion.store(call.out + token * call.out_row + at);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
