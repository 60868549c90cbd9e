// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/on_call.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/session/chosen_activations.hpp>
#include <shardwise/session/log_layout.hpp>
#include <shardwise/session/rank_communicator.hpp>
#include <shardwise/session/request_limits.hpp>
#include <shardwise/session/run_options.hpp>
#include <shardwise/session/run_rank.hpp>

#include <chrono>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// One rank's whole run; `meeting` where ranks are threads of this process.
template <ReductionPolicy Policy, ComputeBackend Backend = Host>
[[nodiscard]] Result<RunReport> run_rank(HostCommunicator& world, Model const& model,
                                         StoredParameters const& parameters,
                                         std::vector<GenerationRequest> const& requests, RunOptions const& options,
                                         std::vector<StageBlocks> const& stages,
                                         typename RankCommunicator<Backend>::Meeting* meeting = nullptr) {
    auto const started = std::chrono::steady_clock::now();
    RunReport report;
    RunRank<Policy, Backend> rank(world, model, options,
                                  limits_for(requests, model, options, chosen_activations<Backend>(model, options)));
    auto done = agree_on(world, rank.open(meeting));
    if (done) done = agree_on(world, rank.load(parameters, stages));
    if (done) done = agree_on(world, rank.begin());
    if (done) {
        auto queued = rank.begin_texts(requests);
        if (queued) queued = rank.queue(requests);
        done = agree_on(world, queued);
    }
    report.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    if (done) log_loaded(options, rank.own_memory(), report.load_seconds, world.rank());
    if (done) done = rank.generate(requests, report);
    if (done) log_generated(options, report, world.rank());
    if (!done) options.log(LogLevel::error, world.rank(), done.error().message());
    if (done) done = rank.end_trace(report);
    if (done) done = rank.count_memory(report);
    if (!done) return rank.fail(done.error());
    return Result<RunReport>(std::move(report));
}

/// As run_in_group, with the parameters opened.
SHARDWISE_ON_CALL
[[nodiscard]] Result<RunReport> run_opened(HostCommunicator& world, Model const& model,
                                           StoredParameters const& parameters,
                                           std::vector<GenerationRequest> const& requests, RunOptions const& options,
                                           std::vector<StageBlocks> const& stages);

#if SHARDWISE_HAS_BODY(RUN)
SHARDWISE_ON_CALL_BODY
Result<RunReport> run_opened(HostCommunicator& world, Model const& model, StoredParameters const& parameters,
                             std::vector<GenerationRequest> const& requests, RunOptions const& options,
                             std::vector<StageBlocks> const& stages) {
    return options.is_deterministic ? run_rank<Deterministic>(world, model, parameters, requests, options, stages)
                                    : run_rank<Fast>(world, model, parameters, requests, options, stages);
}
#endif

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
