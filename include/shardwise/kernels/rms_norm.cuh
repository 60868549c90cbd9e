// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/norm_rows.cuh>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/rms_norm_call.hpp>
#include <shardwise/kernels/detail/row_team.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows that are read as they are, with one weight, or of heads, each with its own.
template <class T, class Weight, unsigned width, bool is_of_heads = false>
struct PlainRows {
    RmsNormCall<T, Weight> const& call;

    template <class Kept>
    __device__ void take(std::int64_t row, std::int64_t portions, Kept& kept) const {
        kept.load(portions, [&](std::int64_t at, Portion<T, width>& portion) { again(row, at, portion); });
    }
    __device__ void make(std::int64_t, std::int64_t, Portion<T, width>&) const {}
    __device__ void again(std::int64_t row, std::int64_t at, Portion<T, width>& portion) const {
        portion.load(call.in + row * call.in_row + at);
    }
    __device__ Weight const* weight(std::int64_t row) const {
        if constexpr (is_of_heads) return head_weight(call, row);
        return call.weight;
    }
};

template <class Api, class T, class Weight, unsigned width, bool is_narrow>
__global__ void __launch_bounds__(norm_threads<is_narrow>, is_narrow ? 2 : 1)
    normalise_rows(RmsNormCall<T, Weight> call) {
    norm_rows<NormTeam<Api, is_narrow>, T, width>(PlainRows<T, Weight, width>{call}, call);
}

/// Rows of heads, which are narrow.
template <class Api, class T, class Weight, unsigned width, bool is_narrow>
__global__ void __launch_bounds__(norm_threads<is_narrow>, is_narrow ? 2 : 1)
    normalise_heads(RmsNormCall<T, Weight> call) {
    norm_rows<NormTeam<Api, is_narrow>, T, width>(PlainRows<T, Weight, width, true>{call}, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
