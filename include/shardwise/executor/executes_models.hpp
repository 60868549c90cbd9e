// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A back end that the executor walks on: it reads and writes views as plain memory.
template <class B>
concept ExecutesModels = ComputeBackend<B> && HasHostMemory<B>;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
