// SPDX-License-Identifier: Apache-2.0
// Attention over a step table for one vendor: kernels/instantiate.cu says how it is compiled.
#include <shardwise/kernels/step_attention_launch.cuh>
#include <shardwise/quant/half_types.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template Result<> launch_step_attention<KernelApi>(StepAttentionCall<float> const&, bool, KernelApi::Stream);
template Result<> launch_step_attention<KernelApi>(StepAttentionCall<Bfloat16> const&, bool, KernelApi::Stream);
template Result<> launch_step_attention<KernelApi>(StepAttentionCall<Float16> const&, bool, KernelApi::Stream);
template Result<> launch_step_attention<KernelApi>(StepAttentionCall<std::int8_t> const&, bool, KernelApi::Stream);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
