// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A back end that the executor walks on. Which operations it has kernels for is asked for each of them (executor/ops/refused_op.hpp):
/// a model that needs others is refused before it is loaded. Of a device, executor/device_kernels.hpp is included first.
template <class B>
concept ExecutesModels = ComputeBackend<B>;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
