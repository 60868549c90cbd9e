// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
struct DeviceCode<CudaApi> {
    static constexpr int warp_size = 32;
    /// True where warps of a block shuffle without each other.
    static constexpr bool has_own_warps = true;

    static __device__ float shuffle_xor(float value, int mask) { return __shfl_xor_sync(0xFFFFFFFFU, value, mask); }
    /// What a thread of the warp holds.
    static __device__ float shuffle_from(float value, int lane) { return __shfl_sync(0xFFFFFFFFU, value, lane); }

    /// Sixteen bytes that no thread writes and none reads soon again: they do not push others out of the first cache.
    template <class Pack>
    static __device__ Pack load_once(void const* at) {
        Pack pack;
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(pack.words[0]), "=r"(pack.words[1]), "=r"(pack.words[2]), "=r"(pack.words[3])
                     : "l"(at));
        return pack;
    }

    static __device__ void store_release(std::uint32_t* at, std::uint32_t value) {
        asm volatile("st.release.sys.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
    }
    static __device__ std::uint32_t load_acquire(std::uint32_t const* at) {
        std::uint32_t value;
        asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
        return value;
    }
    /// The constant clock, in units of 1 / Api::ticks_per_microsecond.
    static __device__ std::int64_t ticks() {
        std::int64_t now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        return now;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
