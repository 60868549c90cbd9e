// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/norm_rows.cuh>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/residual_norm_call.hpp>
#include <shardwise/kernels/detail/row_team.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows of a residual to which parts are added, part after part in float, when they are first read.
template <class T, class Weight, unsigned width>
struct SummedRows {
    ResidualNormCall<T, Weight> const& call;
    T const* const* parts;

    template <class Kept>
    __device__ void take(std::int64_t row, std::int64_t portions, Kept& kept) const {
        if (call.count > 1) {
            kept.load(portions, [&](std::int64_t at, Portion<T, width>& portion) { make(row, at, portion); });
            return;
        }
        // All loads before the first store, which the others would wait for.
        Kept part;
        auto const* const from = call.parts[0] + row * call.norm.width;
        part.load(portions, [&](std::int64_t at, Portion<T, width>& portion) { portion.load(from + at); });
        kept.load(portions, [&](std::int64_t at, Portion<T, width>& portion) { again(row, at, portion); });
        kept.visit_own_with(part, [&](std::int64_t at, Portion<T, width>& portion, Portion<T, width> const& added) {
            float values[width];
            float sums[width];
            portion.get(values);
            added.get(sums);
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < width; ++i) values[i] += sums[i];
            portion.set(values);
            portion.store(call.residual + row * call.norm.in_row + at);
        });
    }
    __device__ void make(std::int64_t row, std::int64_t at, Portion<T, width>& portion) const {
        float sums[width];
        float values[width];
        portion.load(call.parts[0] + row * call.norm.width + at);
        portion.get(sums);
        SHARDWISE_DEVICE_ROLL
        for (std::int64_t part = 1; part < call.count; ++part) {
            portion.load(parts[part] + row * call.norm.width + at);
            portion.get(values);
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < width; ++i) sums[i] += values[i];
        }
        again(row, at, portion);
        portion.get(values);
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < width; ++i) values[i] += sums[i];
        portion.set(values);
        portion.store(call.residual + row * call.norm.in_row + at);
    }
    __device__ Weight const* weight(std::int64_t) const { return call.norm.weight; }
    __device__ void again(std::int64_t row, std::int64_t at, Portion<T, width>& portion) const {
        portion.load(call.residual + row * call.norm.in_row + at);
    }
};

template <class Api, class T, class Weight, unsigned width, bool is_narrow>
__global__ void __launch_bounds__(norm_threads<is_narrow>, is_narrow ? 2 : 1)
    add_and_normalise_rows(ResidualNormCall<T, Weight> call) {
    // Arguments that are indexed at run time would lie in each thread's own memory (HIP). One part is not: nothing waits for it.
    __shared__ T const* parts[max_residual_parts];
    if (call.count > 1) {
        if (threadIdx.x == 0) {
            SHARDWISE_DEVICE_UNROLL
            for (int part = 0; part < max_residual_parts; ++part) {
                if (part < call.count) parts[part] = call.parts[part];
            }
        }
        __syncthreads();
    }
    norm_rows<NormTeam<Api, is_narrow>, T, width>(SummedRows<T, Weight, width>{call, parts}, call.norm);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
