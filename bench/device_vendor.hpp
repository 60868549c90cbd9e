// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(SHARDWISE_HAS_CUDA)
#include <shardwise/backend/cuda.hpp>
#elif defined(SHARDWISE_HAS_HIP)
#include <shardwise/backend/hip.hpp>
#else
// tests/device: what it measures is no device's time. It shows that a benchmark runs.
#include "fake_vendor.hpp"
#endif

#include <cstdint>
#include <string>

/// The vendor that a benchmark of devices is compiled for.
namespace bench {

#if defined(SHARDWISE_HAS_CUDA)
using Device = shardwise::Cuda;
inline constexpr bool is_emulated = false;
#elif defined(SHARDWISE_HAS_HIP)
using Device = shardwise::Hip;
inline constexpr bool is_emulated = false;
#else
using Device = shardwise::testing::Fake;
inline constexpr bool is_emulated = true;
#endif

/// Gives the fake vendor's devices memory for whole models; a real one has what it has.
inline void have_memory() {
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
    shardwise::testing::FakeMachine::get().free_bytes = std::int64_t{1} << 30;
#endif
}

/// The first device's name as its vendor gives it, empty where it gives none.
[[nodiscard]] inline std::string device_name() {
#if defined(SHARDWISE_HAS_CUDA)
    cudaDeviceProp properties{};
    return cudaGetDeviceProperties(&properties, 0) == cudaSuccess ? properties.name : "";
#elif defined(SHARDWISE_HAS_HIP)
    hipDeviceProp_t properties{};
    return hipGetDeviceProperties(&properties, 0) == hipSuccess ? properties.name : "";
#else
    return "emulator";
#endif
}

}  // namespace bench
