// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.hpp>

#include <cstdint>

// hipRTC knows what it has without a header.
#if !defined(__HIPCC_RTC__)
#include <hip/hip_runtime.h>
#endif
#if defined(SHARDWISE_HIP_JIT)
// After the header, which has some of the names for the host's compiler as well.
#include <shardwise/backend/jit/device_names.cuh>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

#if defined(SHARDWISE_HAS_HIP_CPU)
// HIP on the CPU shuffles by a barrier of the block.
inline constexpr bool has_device_warps = false;
#else
inline constexpr bool has_device_warps = true;
#endif

#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
inline constexpr int hip_warp = 32;
#elif defined(__HIP_DEVICE_COMPILE__) && defined(__AMDGCN_WAVEFRONT_SIZE)
// Of compilers that do not say the generation.
inline constexpr int hip_warp = __AMDGCN_WAVEFRONT_SIZE;
#else
inline constexpr int hip_warp = 64;
#endif

template <>
struct DeviceCode<HipApi> {
    /// Of the device that the code is compiled for.
    static constexpr int warp_size = hip_warp;
    /// True where warps of a block shuffle without each other.
    static constexpr bool has_own_warps = has_device_warps;

    static __device__ float shuffle_xor(float value, int mask) { return __shfl_xor(value, mask); }
    /// What a thread of the warp holds.
    static __device__ float shuffle_from(float value, int lane) { return __shfl(value, lane); }

    /// Sixteen bytes that no thread writes.
    template <class Pack>
    static __device__ Pack load_once(void const* at) {
        return *static_cast<Pack const*>(at);
    }

    static __device__ void store_release(std::uint32_t* at, std::uint32_t value) {
        __hip_atomic_store(at, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    }
    static __device__ std::uint32_t load_acquire(std::uint32_t const* at) {
        return __hip_atomic_load(at, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
    }
    /// The constant clock, in units of 1 / Api::ticks_per_microsecond.
    static __device__ std::int64_t ticks() {
#if defined(__HIP_DEVICE_COMPILE__) || defined(SHARDWISE_HAS_HIP_CPU)
        return wall_clock64();
#else
        return 0;
#endif
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
