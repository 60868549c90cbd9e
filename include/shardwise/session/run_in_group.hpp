// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/declared/run_in_group.hpp>

#if SHARDWISE_HAS_BODY(RUN)
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/session/run_on_vendor.hpp>
#include <shardwise/session/run_opened.hpp>
#include <shardwise/session/run_over_group.hpp>

#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_ON_CALL_BODY
Result<RunReport> run_in_group(HostCommunicator& world, OpenCheckpoint& files, Model const& model,
                               std::vector<GenerationRequest> const& requests, RunOptions const& options) {
    if (!options.devices.empty()) return detail::run_in_group_on_vendor(world, files, model, requests, options);
    return detail::run_over_group(world, files, model, options, [&](auto const& parameters, auto const& stages) {
        return detail::run_opened(world, model, parameters, requests, options, stages);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
#endif
