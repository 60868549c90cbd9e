// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/device_math.hpp>
#include <shardwise/kernels/detail/kept_row.cuh>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/row_team.cuh>
#include <shardwise/kernels/detail/softmax_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A sum has a chain of n / team + width + log2(warp) + warps additions.
template <class Api, class T, unsigned width, bool is_narrow>
__global__ void __launch_bounds__(row_threads, 2) softmax_rows(SoftmaxCall<T> call) {
    using Team = RowTeam<Api, is_narrow>;
    auto const none = float_of_bits(0xFF800000U);
    for_rows<Team>(call.rows, [&](std::int64_t row, bool is_row) {
        auto const read = [&](std::int64_t at, Portion<T, width>& portion) {
            portion.load(call.in + row * call.in_row + at);
        };
        KeptRow<Team, T, width> kept;
        kept.load(is_row ? call.width / width : 0, read);
        auto largest = none;
        kept.visit(read, [&](std::int64_t, Portion<T, width> const& portion) {
            float values[width];
            portion.get(values);
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < width; ++i) largest = greater_of(largest, values[i]);
        });
        largest = Team::greatest(largest);
        float sum = 0.0F;
        kept.visit(read, [&](std::int64_t, Portion<T, width> const& portion) {
            float values[width];
            portion.get(values);
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < width; ++i) sum += device_exp(values[i] - largest);
        });
        auto const scale = 1.0F / Team::sum(sum);
        bool const is_masked = largest == none;
        // Each thread writes what it alone has read, so that `out` may be `in`.
        kept.visit(read, [&](std::int64_t at, Portion<T, width> portion) {
            float values[width];
            portion.get(values);
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < width; ++i) {
                values[i] = is_masked ? 0.0F : device_exp(values[i] - largest) * scale;
            }
            portion.set(values);
            portion.store(call.out + row * call.out_row + at);
        });
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
