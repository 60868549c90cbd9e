// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

struct CudaApi;
struct HipApi;

/// What kernels are written over: a vendor's warp size and intrinsics. Specialised in backend/cuda.cuh and backend/hip.cuh, which
/// need a device compiler and no standard library.
template <class Api>
struct DeviceCode;

/// The warps of the vendor's devices where they are widest, which is the same whatever device a unit is compiled for: what a launcher
/// decides depends on no other.
template <class Api>
inline constexpr int widest_warp = DeviceCode<Api>::warp_size;
template <>
inline constexpr int widest_warp<HipApi> = 64;

/// How a vendor launches a kernel. Specialised in backend/cuda_launch.cuh and backend/hip_launch.cuh.
template <class Api>
struct DeviceLaunch;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
