#pragma once

namespace shardwise::inline v0_2_0::detail {

/// What kernels are written over: a vendor's intrinsics, and the launch of a kernel. Specialised in backend/cuda.cuh and
/// backend/hip.cuh, which need a device compiler.
template <class Api>
struct DeviceCode;

}  // namespace shardwise::inline v0_2_0::detail
