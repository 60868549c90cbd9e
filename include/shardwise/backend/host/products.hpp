// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/gemm.hpp>
#include <shardwise/backend/host/multiply.hpp>
#include <shardwise/backend/host/weight.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

static_assert(ComputeBackend<Host>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
