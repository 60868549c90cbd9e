// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/hip_api.hpp>
#include <shardwise/backend/hip.cuh>

#include <cstdint>
#include <hip/hip_runtime.h>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
struct DeviceLaunch<HipApi> {
    template <class... Parameters>
    static Result<> launch(std::string_view name, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
                           hipStream_t stream, Parameters... arguments) {
        hipLaunchKernelGGL(kernel, dim3(static_cast<std::uint32_t>(blocks)), dim3(static_cast<std::uint32_t>(threads)),
                           0, stream, arguments...);
        return hip_result(hipGetLastError(), name);
    }

    /// Whether the program has a kernel for the current device.
    template <class... Parameters>
    static Result<bool> has_code(void (*kernel)(Parameters...)) {
        hipFuncAttributes attributes{};
        auto const status = hipFuncGetAttributes(&attributes, reinterpret_cast<void const*>(kernel));
        if (status == hipErrorNoBinaryForGpu || status == hipErrorInvalidDeviceFunction)
            return (void)hipGetLastError(), false;
        auto const result = hip_result(status, "hipFuncGetAttributes");
        if (!result) return (void)hipGetLastError(), result.error();
        return true;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
