// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>

// As device_code.cuh, for what launches kernels. KernelApi is the vendor that kernels/instantiate/ is compiled for;
// SHARDWISE_KERNEL(name<...>) is what DeviceLaunch launches a kernel by, a pointer to a function with its parameters.
#if defined(__CUDACC__)
#include <shardwise/backend/cuda_launch.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {
using KernelApi = CudaApi;
}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
#elif defined(__HIPCC__) || defined(SHARDWISE_HAS_HIP_CPU)
#include <shardwise/backend/hip_launch.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {
using KernelApi = HipApi;
}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
#elif defined(SHARDWISE_CUDA_JIT)
#include <shardwise/backend/jit/cuda_launch.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {
using KernelApi = CudaApi;
}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
#elif defined(SHARDWISE_HIP_JIT)
#include <shardwise/backend/jit/hip_launch.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {
using KernelApi = HipApi;
}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
#endif

#if !defined(__CUDACC__) && !defined(__HIPCC__) && (defined(SHARDWISE_CUDA_JIT) || defined(SHARDWISE_HIP_JIT))
#define SHARDWISE_KERNEL(...) (&shardwise::detail::JitKernel<&__VA_ARGS__>::launch)
#endif

#if !defined(SHARDWISE_KERNEL)
#define SHARDWISE_KERNEL(...) (&__VA_ARGS__)
#endif
