// SPDX-License-Identifier: Apache-2.0
// The kernels over rows for one vendor: kernels/instantiate.cu says how they are compiled.
#include <shardwise/kernels/rms_norm_launch.cuh>
#include <shardwise/kernels/rope_launch.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template Result<> launch_rms_norm<KernelApi>(RmsNormCall<float> const&, KernelApi::Stream);
template Result<> launch_rms_norm<KernelApi>(RmsNormCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_rms_norm<KernelApi>(RmsNormCall<Float16> const&, KernelApi::Stream);

template Result<> launch_rope<KernelApi>(RopeCall<float> const&, KernelApi::Stream);
template Result<> launch_rope<KernelApi>(RopeCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_rope<KernelApi>(RopeCall<Float16> const&, KernelApi::Stream);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
