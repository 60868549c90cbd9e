// SPDX-License-Identifier: Apache-2.0
// The device side of the kernels, for host programs that another compiler compiles: one translation unit for nvcc or hipcc.
// With CMake: shardwise_add_kernels(target). Without: nvcc -std=c++20 -I<include> -c instantiate.cu, and link the object.
#include <shardwise/kernels/all_reduce.cuh>
#include <shardwise/kernels/gemm.cuh>
#include <shardwise/kernels/multiply.cuh>
#include <shardwise/kernels/rms_norm.cuh>
#include <shardwise/kernels/rope.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

#if defined(__CUDACC__)
using KernelApi = CudaApi;
#else
using KernelApi = HipApi;
// CUDA multiplies by cuBLASLt.
template Result<> launch_gemm<KernelApi, float>(GemmCall const&, KernelApi::Stream);
template Result<> launch_gemm<KernelApi, Bfloat16>(GemmCall const&, KernelApi::Stream);
template Result<> launch_gemm<KernelApi, Float16>(GemmCall const&, KernelApi::Stream);
#endif

template Result<> launch_multiply<KernelApi>(MultiplyCall const&, KernelApi::Stream);

template Result<> launch_rms_norm<KernelApi>(RmsNormCall<float> const&, KernelApi::Stream);
template Result<> launch_rms_norm<KernelApi>(RmsNormCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_rms_norm<KernelApi>(RmsNormCall<Float16> const&, KernelApi::Stream);

template Result<> launch_rope<KernelApi>(RopeCall<float> const&, KernelApi::Stream);
template Result<> launch_rope<KernelApi>(RopeCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_rope<KernelApi>(RopeCall<Float16> const&, KernelApi::Stream);

template Result<> launch_all_reduce<KernelApi, float>(AllReduceCall const&, KernelApi::Stream);
template Result<> launch_all_reduce<KernelApi, Bfloat16>(AllReduceCall const&, KernelApi::Stream);
template Result<> launch_all_reduce<KernelApi, Float16>(AllReduceCall const&, KernelApi::Stream);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
