// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/cuda.cuh>
#include <shardwise/backend/detail/cuda_api.hpp>

#include <cstdint>
#include <cuda_runtime.h>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
struct DeviceLaunch<CudaApi> {
    template <class... Parameters>
    static Result<> launch(std::string_view name, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
                           cudaStream_t stream, Parameters... arguments) {
        kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0, stream>>>(arguments...);
        return cuda_result(cudaGetLastError(), name);
    }

    /// Whether the program has a kernel for the current device.
    template <class... Parameters>
    static Result<bool> has_code(void (*kernel)(Parameters...)) {
        cudaFuncAttributes attributes{};
        auto const status = cudaFuncGetAttributes(&attributes, reinterpret_cast<void const*>(kernel));
        if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction)
            return (void)cudaGetLastError(), false;
        auto const result = cuda_result(status, "cudaFuncGetAttributes");
        if (!result) return (void)cudaGetLastError(), result.error();
        return true;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
