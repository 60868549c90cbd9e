// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/arg_max_call.hpp>
#include <shardwise/kernels/detail/logit_key.hpp>
#include <shardwise/kernels/detail/pack.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int arg_max_threads = 512;

/// Where a row's largest logit is told of.
__device__ inline void store_largest(ArgMaxCall const& call, std::int64_t row, std::int64_t key) {
    if (call.keys != nullptr) {
        call.keys[row] = key;
    } else {
        call.ids[row] = id_of_key(key);
    }
}

/// A block finds a row's largest logit. Keys have one order, whichever thread has seen them.
template <unsigned width>
__global__ void __launch_bounds__(arg_max_threads) find_largest(ArgMaxCall call) {
    __shared__ std::int64_t keys[arg_max_threads];
    // Loads of a thread that are under way at once.
    constexpr unsigned at_once = 4;
    auto const thread = static_cast<int>(threadIdx.x);
    auto const portions = call.width / width;
    for (auto row = static_cast<std::int64_t>(blockIdx.x); row < call.rows; row += gridDim.x) {
        auto const* const logits = call.logits + row * call.row;
        float best = 0.0F;
        std::int64_t place = -1;
        for (auto first = static_cast<std::int64_t>(thread); first < portions; first += at_once * arg_max_threads) {
            Portion<float, width> seen[at_once];
            SHARDWISE_DEVICE_UNROLL
            for (unsigned k = 0; k < at_once; ++k) {
                auto const at = first + k * arg_max_threads;
                if (at < portions) seen[k].load(logits + at * width);
            }
            SHARDWISE_DEVICE_UNROLL
            for (unsigned k = 0; k < at_once; ++k) {
                auto const at = first + k * arg_max_threads;
                if (at >= portions) continue;
                float values[width];
                seen[k].get(values);
                SHARDWISE_DEVICE_UNROLL
                for (unsigned i = 0; i < width; ++i) {
                    // A thread's places ascend: of equal logits it keeps the first. Neither holds for NaN.
                    if (values[i] > best || (place < 0 && values[i] == values[i])) {
                        best = values[i];
                        place = at * width + i;
                    }
                }
            }
        }
        keys[thread] = place < 0 ? no_logit_key : logit_key(best, call.first_id + place);
        for (int others = arg_max_threads / 2; others > 0; others /= 2) {
            __syncthreads();
            if (thread < others && keys[thread + others] > keys[thread]) keys[thread] = keys[thread + others];
        }
        if (thread == 0) store_largest(call, row, keys[0]);
        // The next row's keys come after the reads of this one's.
        __syncthreads();
    }
}

template <int threads>
__global__ void __launch_bounds__(threads) find_ids(ArgMaxCall call) {
    auto const step = static_cast<std::int64_t>(gridDim.x) * threads;
    for (auto row = static_cast<std::int64_t>(blockIdx.x) * threads + static_cast<int>(threadIdx.x); row < call.rows;
         row += step) {
        call.ids[row] = id_of_key(call.keys[row]);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
