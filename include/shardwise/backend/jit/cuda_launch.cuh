// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/cuda_api.hpp>
#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/jit/cuda_jit.hpp>
#include <shardwise/backend/jit/jit_launcher.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
struct DeviceLaunch<CudaApi> : JitLauncher<CudaJit, CudaApi::Stream> {};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
