// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>

// As device_code.cuh, for what launches kernels; KernelApi is the vendor that kernels/instantiate/ is compiled for.
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
#endif
