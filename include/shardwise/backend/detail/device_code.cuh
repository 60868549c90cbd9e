// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.hpp>
#include <shardwise/backend/device_attribute.hpp>

// The vendor whose device compiler this is. Another compiler brings a DeviceCode and the built-in names of its own: the
// suite's emulator does.
#if defined(__CUDACC__)
#include <shardwise/backend/cuda.cuh>
#elif defined(__HIPCC__) || defined(SHARDWISE_HAS_HIP_CPU)
#include <shardwise/backend/hip.cuh>
#endif
