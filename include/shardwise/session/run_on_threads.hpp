// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/declared/run_on_threads.hpp>

#if SHARDWISE_HAS_BODY(RUN)
#include <shardwise/session/run_on_vendor.hpp>
#include <shardwise/session/run_rank.hpp>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_ON_CALL_BODY
Result<RunReport> run_on_threads(OpenCheckpoint& files, Model const& model,
                                 std::vector<GenerationRequest> const& requests, RunOptions const& options) {
    if (!options.devices.empty()) return detail::run_on_vendor(files, model, requests, options);
    auto const begin = std::chrono::steady_clock::now();
    auto const stages = plan_stages(model, options);
    if (!stages) return stages.error();
    auto const parameters = StoredParameters::open(files, model);
    if (!parameters) return parameters.error();
    auto const headers = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    RunReport report;
    auto const run = [&](Threads& comm) -> Result<> {
        bool const is_first = comm.rank() == 0;
        HostCommunicator world(std::move(comm));
        auto ran = detail::run_opened(world, model, *parameters, requests, options, *stages);
        if (!ran) return ran.error();
        if (is_first) report = std::move(*ran);
        return {};
    };
    auto const done = run_threads(static_cast<std::int32_t>(options.ranks()), run, {.timeout = options.timeout});
    if (!done) return done.error();
    report.load_seconds += headers;
    return report;
}

SHARDWISE_ON_CALL_BODY
Result<RunReport> run_on_threads(ModelSource const& source, Model const& model,
                                 std::vector<GenerationRequest> const& requests, RunOptions const& options) {
    OpenCheckpoint files(source);
    return run_on_threads(files, model, requests, options);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
#endif
