// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.hpp>
#include <shardwise/backend/detail/hip_api.hpp>

#include <cstdint>
#include <hip/hip_runtime.h>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
struct DeviceCode<HipApi> {
    static __device__ float shuffle_xor(float value, int mask) { return __shfl_xor(value, mask); }

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

    template <class... Parameters>
    static Result<> launch(std::string_view name, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
                           hipStream_t stream, Parameters... arguments) {
        hipLaunchKernelGGL(kernel, dim3(static_cast<std::uint32_t>(blocks)), dim3(static_cast<std::uint32_t>(threads)),
                           0, stream, arguments...);
        return hip_result(hipGetLastError(), name);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
