// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Shared memory of a block, the same for all that ask for the type.
template <class Memory>
__device__ Memory& block_memory() {
    __shared__ Memory memory;
    return memory;
}

/// The greater of two; NaN where one is.
[[nodiscard]] __device__ inline float greater_of(float a, float b) {
    return a > b || a != a ? a : b;
}

/// The sum of a value of each thread of a warp, in all of them, by a butterfly: the same order on every run.
template <class Api>
__device__ float warp_sum(float value) {
    SHARDWISE_DEVICE_UNROLL
    for (int mask = DeviceCode<Api>::warp_size / 2; mask > 0; mask /= 2) {
        value += DeviceCode<Api>::shuffle_xor(value, mask);
    }
    return value;
}

/// The sums over a warp of `count` values of each thread, a power of two: in the order of warp_sum, but a thread adds only what
/// leads to its own results, values[0, width), the sums `first` and following.
template <class Api, int count>
struct SpreadSums {
    static constexpr int warp = DeviceCode<Api>::warp_size;
    static constexpr int width = count > warp ? count / warp : 1;
    int first = 0;
    /// True of one of the threads that have the same results.
    bool is_owner = true;

    __device__ SpreadSums(float (&values)[count], int lane) {
        int kept = count;
        SHARDWISE_DEVICE_UNROLL
        for (int mask = warp / 2; mask > 0; mask /= 2) {
            bool const is_upper = (lane & mask) != 0;
            if (kept == 1) {
                values[0] += DeviceCode<Api>::shuffle_xor(values[0], mask);
                if (is_upper) is_owner = false;
                continue;
            }
            kept /= 2;
            if (is_upper) first += kept;
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < count / 2; ++i) {
                if (i >= kept) break;
                auto const own = is_upper ? values[kept + i] : values[i];
                auto const other = is_upper ? values[i] : values[kept + i];
                values[i] = own + DeviceCode<Api>::shuffle_xor(other, mask);
            }
        }
    }
};

/// The greatest value of the threads of a warp.
template <class Api>
__device__ float warp_greatest(float value) {
    SHARDWISE_DEVICE_UNROLL
    for (int mask = DeviceCode<Api>::warp_size / 2; mask > 0; mask /= 2) {
        value = greater_of(value, DeviceCode<Api>::shuffle_xor(value, mask));
    }
    return value;
}

/// What each warp of a block of `threads` has found, in all threads. Every thread of the block calls it.
template <class Api, int threads>
__device__ float const* share_of_warps(float of_warp) {
    constexpr int warp = DeviceCode<Api>::warp_size;
    static_assert(threads % warp == 0, "a block is made of whole warps");
    __shared__ float shared[static_cast<unsigned>(threads / warp)];
    auto const thread = static_cast<int>(threadIdx.x);
    // The reads of the call before are over.
    __syncthreads();
    if (thread % warp == 0) shared[thread / warp] = of_warp;
    __syncthreads();
    return shared;
}

/// The sum of a value of each thread of a block of `threads`, in all of them. Every thread of the block calls it.
template <class Api, int threads>
__device__ float block_sum(float value) {
    auto const* const sums = share_of_warps<Api, threads>(warp_sum<Api>(value));
    float total = 0.0F;
    SHARDWISE_DEVICE_UNROLL
    for (int warp = 0; warp < threads / DeviceCode<Api>::warp_size; ++warp) total += sums[warp];
    return total;
}
/// The greatest of them.
template <class Api, int threads>
__device__ float block_greatest(float value) {
    auto const* const found = share_of_warps<Api, threads>(warp_greatest<Api>(value));
    auto greatest = found[0];
    SHARDWISE_DEVICE_UNROLL
    for (int warp = 1; warp < threads / DeviceCode<Api>::warp_size; ++warp)
        greatest = greater_of(greatest, found[warp]);
    return greatest;
}

/// The sum of a value of each thread of a block of whole warps, at most 1024 threads, in all of them. Every thread of the block calls it.
template <class Api>
__device__ float any_block_sum(float value) {
    constexpr int warp = DeviceCode<Api>::warp_size;
    __shared__ float sums[static_cast<unsigned>(1024 / warp)];
    auto const thread = static_cast<int>(threadIdx.x);
    auto const of_warp = warp_sum<Api>(value);
    // The reads of the call before are over.
    __syncthreads();
    if (thread % warp == 0) sums[thread / warp] = of_warp;
    __syncthreads();
    float total = 0.0F;
    for (int i = 0; i < static_cast<int>(blockDim.x) / warp; ++i) total += sums[i];
    return total;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
