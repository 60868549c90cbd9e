// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/hip_api.hpp>
#include <shardwise/backend/jit/hip_jit.hpp>
#include <shardwise/backend/jit/jit_launcher.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

static_assert(DeviceCode<HipApi>::warp_size == HipApi::warp_size ||
                  DeviceCode<HipApi>::warp_size == HipApi::least_warp_size,
              "kernels and contexts agree on the warp");
static_assert(widest_warp<HipApi> == HipApi::warp_size, "launchers and kernels agree on the widest warp");

template <>
struct DeviceLaunch<HipApi> : JitLauncher<HipJit, HipApi::Stream> {};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
