// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/declared/run_on_vendor.hpp>

#if defined(SHARDWISE_HAS_HIP) && SHARDWISE_HAS_BODY(HIP)
#include <shardwise/backend/hip.hpp>
#include <shardwise/session/run_on_devices.hpp>

#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_ON_CALL_BODY
Result<RunReport> run_on_hip(OpenCheckpoint& files, Model const& model, std::vector<GenerationRequest> const& requests,
                             RunOptions const& options) {
    return run_on_devices<Hip>(files, model, requests, options);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
#endif
