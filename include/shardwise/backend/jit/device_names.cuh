// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What device code is written in, for a compiler of the host that reads kernels to know how they are called, and makes nothing of
// their bodies: an `extern inline` function with gnu_inline has none in the object file (SHARDWISE_CUDA_JIT, SHARDWISE_HIP_JIT).

#if defined(__clang__)
// Of shared memory, which is no variable of the program.
#pragma clang diagnostic ignored "-Wstatic-local-in-inline"
#endif

// The vendors' headers define them for the host's compiler as well, unless they are there.
#undef __host__
#undef __device__
#undef __global__
#undef __shared__
#undef __launch_bounds__
#define __host__
#define __device__
#define __global__ extern inline __attribute__((gnu_inline))
#define __shared__ static
#define __launch_bounds__(...)

struct ShardwiseJitDimension {
    unsigned x;
    unsigned y;
    unsigned z;
};

extern ShardwiseJitDimension const threadIdx;
extern ShardwiseJitDimension const blockIdx;
extern ShardwiseJitDimension const blockDim;
extern ShardwiseJitDimension const gridDim;

void __syncthreads();
void __threadfence_system();
std::uint32_t atomicAdd(std::uint32_t* at, std::uint32_t value);
std::uint32_t atomicOr(std::uint32_t* at, std::uint32_t bits);
std::uint32_t atomicCAS(std::uint32_t* at, std::uint32_t expected, std::uint32_t value);
float __shfl_xor_sync(std::uint32_t threads, float value, int mask);
float __shfl_sync(std::uint32_t threads, float value, int lane);
std::uintptr_t __cvta_generic_to_shared(void const* at);

// HIP's own.
float __shfl_xor(float value, int mask);
float __shfl(float value, int lane);
#if !defined(__HIP_MEMORY_SCOPE_SYSTEM)
#define __HIP_MEMORY_SCOPE_SYSTEM 5
#endif
#if !defined(__clang__)
void __hip_atomic_store(std::uint32_t* at, std::uint32_t value, int order, int scope);
std::uint32_t __hip_atomic_load(std::uint32_t const* at, int order, int scope);
#endif
