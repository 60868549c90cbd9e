// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.hpp>
#include <shardwise/backend/device_attribute.hpp>

// The vendor whose device compiler this is. Another compiler brings a DeviceCode and the built-in names of its own: the
// suite's emulator does. Where kernels are compiled when they are first called (SHARDWISE_CUDA_JIT, SHARDWISE_HIP_JIT), the host's
// compiler reads them as the vendor's; NVRTC or hipRTC, which then compiles them, is __CUDACC__ or __HIPCC__.
#if defined(__CUDACC__)
#include <shardwise/backend/cuda.cuh>
#elif defined(__HIPCC__) || defined(SHARDWISE_HAS_HIP_CPU) || defined(SHARDWISE_HIP_JIT)
#include <shardwise/backend/hip.cuh>
#elif defined(SHARDWISE_CUDA_JIT)
#include <shardwise/backend/jit/device_names.cuh>
// After the names that it is written in.
#include <shardwise/backend/cuda.cuh>
#endif
