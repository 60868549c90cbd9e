// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/declared/run_on_threads.hpp>

#if SHARDWISE_HAS_BODY(RUN)
#include <shardwise/session/run_on_vendor.hpp>
#include <shardwise/session/run_opened.hpp>
#include <shardwise/session/run_over_threads.hpp>

#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_ON_CALL_BODY
Result<RunReport> run_on_threads(OpenCheckpoint& files, Model const& model,
                                 std::vector<GenerationRequest> const& requests, RunOptions const& options) {
    if (!options.devices.empty()) return detail::run_on_vendor(files, model, requests, options);
    return detail::run_over_threads(files, model, options,
                                    [&](auto& world, auto const& parameters, auto const& stages) {
                                        return detail::run_opened(world, model, parameters, requests, options, stages);
                                    });
}

SHARDWISE_ON_CALL_BODY
Result<RunReport> run_on_threads(ModelSource const& source, Model const& model,
                                 std::vector<GenerationRequest> const& requests, RunOptions const& options) {
    OpenCheckpoint files(source);
    return run_on_threads(files, model, requests, options);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
#endif
