// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/hip_api.hpp>
#include <shardwise/backend/jit/hip_jit.hpp>
#include <shardwise/backend/jit/jit_launcher.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
struct DeviceLaunch<HipApi> : JitLauncher<HipJit, HipApi::Stream> {};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
