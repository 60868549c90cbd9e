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

}  // namespace bench
