// SPDX-License-Identifier: Apache-2.0
// The products for one vendor: kernels/instantiate.cu says how they are compiled.
#include <shardwise/kernels/gemm_launch.cuh>
#include <shardwise/kernels/multiply_experts_launch.cuh>
#include <shardwise/kernels/multiply_launch.cuh>
#include <shardwise/kernels/multiply_sums_launch.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

// Of a vendor's library, for the shapes that it has no algorithm for.
template Result<> launch_gemm<KernelApi, float>(GemmCall const&, KernelApi::Stream);
template Result<> launch_gemm<KernelApi, Bfloat16>(GemmCall const&, KernelApi::Stream);
template Result<> launch_gemm<KernelApi, Float16>(GemmCall const&, KernelApi::Stream);

template Result<> launch_multiply<KernelApi>(MultiplyCall const&, KernelApi::Stream);
template Result<> launch_multiply_sums<KernelApi>(MultiplySumsCall const&, KernelApi::Stream);
template Result<> launch_multiply_experts<KernelApi>(MultiplyExpertsCall const&, KernelApi::Stream);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
