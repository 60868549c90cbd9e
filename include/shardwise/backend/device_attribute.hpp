// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function that host code and device code may both call: what a body given to `launch` has to be.
// HIP on the CPU compiles device code as host code, and needs no mark.
#if (defined(__CUDACC__) || defined(__HIPCC__)) && !defined(__HIP_CPU_RT__)
#define SHARDWISE_DEVICE __host__ __device__
#else
#define SHARDWISE_DEVICE
#endif

/// Makes device compilers write out the loop that follows: what is indexed by a loop that runs lies in memory, not in registers.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define SHARDWISE_DEVICE_UNROLL _Pragma("unroll")
#else
#define SHARDWISE_DEVICE_UNROLL
#endif

/// Keeps device compilers from writing out copies of the loop that follows, whose registers every thread would pay for.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define SHARDWISE_DEVICE_ROLL _Pragma("unroll 1")
#else
#define SHARDWISE_DEVICE_ROLL
#endif
