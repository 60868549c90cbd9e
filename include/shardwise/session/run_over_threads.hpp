// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/session/plan_stages.hpp>
#include <shardwise/session/run_options.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Opens the parameters and runs every rank in a thread of this process: run_rank(world, parameters, stages) is one rank's run, of which
/// rank 0's report is the whole's.
template <class RunRank>
[[nodiscard]] Result<RunReport> run_over_threads(OpenCheckpoint& files, Model const& model, RunOptions const& options,
                                                 RunRank const& run_rank) {
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
        auto ran = run_rank(world, *parameters, *stages);
        if (!ran) return ran.error();
        if (is_first) report = std::move(*ran);
        return {};
    };
    auto const done = run_threads(static_cast<std::int32_t>(options.ranks()), run, {.timeout = options.timeout});
    if (!done) return done.error();
    report.load_seconds += headers;
    return report;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
