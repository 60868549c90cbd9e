// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/cuda_api.hpp>
#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/jit/cuda_jit.hpp>
#include <shardwise/backend/jit/jit_kernel.hpp>

#include <cstdint>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

static_assert(DeviceCode<CudaApi>::warp_size == CudaApi::warp_size, "kernels and contexts agree on the warp");

/// Launches what SHARDWISE_KERNEL names: NVRTC compiles it when it is first launched, unless the cache has it.
template <>
struct DeviceLaunch<CudaApi> {
    template <class... Parameters>
    static Result<> launch(std::string_view name, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
                           cudaStream_t stream, Parameters... arguments) {
        JitLaunch launch{name, blocks, threads, stream, &launch_kernel};
        auto* const before = std::exchange(JitLaunch::current(), &launch);
        kernel(arguments...);
        JitLaunch::current() = before;
        return launch.result;
    }

private:
    static Result<> launch_kernel(JitRecord& kernel, void** arguments, JitLaunch const& launch) {
        auto const jit = CudaJit::get();
        if (!jit) return jit.error();
        return (*jit)->launch(kernel, arguments, launch);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
