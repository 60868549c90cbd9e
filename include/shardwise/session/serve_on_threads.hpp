// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/declared/serve_on_threads.hpp>

#if SHARDWISE_HAS_BODY(RUN)
#include <shardwise/session/run_on_vendor.hpp>
#include <shardwise/session/serve_on_backend.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_ON_CALL_BODY
Result<> serve_on_threads(OpenCheckpoint& files, Model const& model, RunOptions const& options, NextRequest const& next,
                          OnGeneration const& on_generation) {
    if (!options.devices.empty()) return detail::serve_on_vendor(files, model, options, next, on_generation);
    return serve_on_backend<Host>(files, model, options, next, on_generation);
}

SHARDWISE_ON_CALL_BODY
Result<> serve_on_threads(ModelSource const& source, Model const& model, RunOptions const& options,
                          NextRequest const& next, OnGeneration const& on_generation) {
    OpenCheckpoint files(source);
    return serve_on_threads(files, model, options, next, on_generation);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
#endif
