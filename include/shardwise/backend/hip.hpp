// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/detail/hip_api.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_product.hpp>
#include <shardwise/backend/device_sums.hpp>
#include <shardwise/backend/device_weight.hpp>

#include <hip/hip_runtime_api.h>

#if defined(SHARDWISE_HAS_HIPBLASLT)
#include <shardwise/backend/detail/hipblaslt.hpp>
#else
#include <shardwise/backend/detail/hip_products.hpp>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The back end that runs on AMD devices. Link the target shardwise::hip and, where kernels are called,
/// shardwise_add_kernels(target): it brings their device code.
using Hip = DeviceBackend<detail::HipApi>;
using HipContext = Hip::Context;
using HipStream = Hip::Stream;
using HipEvent = Hip::Event;

static_assert(ComputeBackend<Hip>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
