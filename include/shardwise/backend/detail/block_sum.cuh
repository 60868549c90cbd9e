// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The sum of a value of each thread of a warp, in all of them, by a butterfly: the same order on every run.
template <class Api>
__device__ float warp_sum(float value) {
    for (int mask = Api::warp_size / 2; mask > 0; mask /= 2) value += DeviceCode<Api>::shuffle_xor(value, mask);
    return value;
}

/// The sum of a value of each thread of a block of `threads`, in all of them. Every thread of the block calls it.
template <class Api, int threads>
__device__ float block_sum(float value) {
    constexpr auto warps = static_cast<unsigned>(threads / Api::warp_size);
    static_assert(static_cast<int>(warps) * Api::warp_size == threads, "a block is made of whole warps");
    __shared__ float sums[warps];
    auto const thread = static_cast<int>(threadIdx.x);
    auto const mine = warp_sum<Api>(value);
    // The reads of the call before are over.
    __syncthreads();
    if (thread % Api::warp_size == 0) sums[thread / Api::warp_size] = mine;
    __syncthreads();
    float total = 0.0F;
    for (unsigned warp = 0; warp < warps; ++warp) total += sums[warp];
    return total;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
