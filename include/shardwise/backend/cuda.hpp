// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/detail/cublaslt.hpp>
#include <shardwise/backend/detail/cuda_api.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_product.hpp>
#include <shardwise/backend/device_sums.hpp>
#include <shardwise/backend/device_weight.hpp>

#include <cuda_runtime_api.h>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The back end that runs on CUDA devices. Link the target shardwise::cuda and, where kernels are called,
/// shardwise_add_kernels(target): it brings their device code.
using Cuda = DeviceBackend<detail::CudaApi>;
using CudaContext = Cuda::Context;
using CudaStream = Cuda::Stream;
using CudaEvent = Cuda::Event;

static_assert(ComputeBackend<Cuda>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
