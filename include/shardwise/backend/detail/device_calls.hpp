// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/gemm_call.hpp>
#include <shardwise/backend/detail/multiply_call.hpp>
#include <shardwise/backend/detail/multiply_sums_call.hpp>
#include <shardwise/core/result.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

// What crosses the link between host code, which any compiler may have compiled, and kernels, which a device compiler has:
// plain values, and function templates without constraints, whose names both compilers spell alike. They are defined in
// _launch.cuh files and instantiated by kernels/instantiate/*.cu.

template <class Api, class T>
Result<> launch_gemm(GemmCall const& call, typename Api::Stream stream);

template <class Api>
Result<> launch_multiply(MultiplyCall const& call, typename Api::Stream stream);
template <class Api>
Result<> launch_multiply_sums(MultiplySumsCall const& call, typename Api::Stream stream);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
