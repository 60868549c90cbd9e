// SPDX-License-Identifier: Apache-2.0
// The device side of the kernels, for host programs that another compiler compiles: all of it in one translation unit for nvcc or
// hipcc, or file by file. With CMake: shardwise_add_kernels(target), which compiles the files of kernels/instantiate/ side by side.
// Without: nvcc -std=c++20 -I<include> -c instantiate.cu, and link the object.
#include <shardwise/kernels/instantiate/attention.cu>
#include <shardwise/kernels/instantiate/collectives.cu>
#include <shardwise/kernels/instantiate/products.cu>
#include <shardwise/kernels/instantiate/rows.cu>
