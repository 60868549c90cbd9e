// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What kernels are written over: a vendor's intrinsics, and the launch of a kernel. Specialised in backend/cuda.cuh and
/// backend/hip.cuh, which need a device compiler.
template <class Api>
struct DeviceCode;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
