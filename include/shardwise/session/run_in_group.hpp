// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/declared/run_in_group.hpp>

#if SHARDWISE_HAS_BODY(RUN)
#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/session/plan_stages.hpp>
#include <shardwise/session/run_rank.hpp>

#include <chrono>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_ON_CALL_BODY
Result<RunReport> run_in_group(HostCommunicator& world, OpenCheckpoint& files, Model const& model,
                               std::vector<GenerationRequest> const& requests, RunOptions const& options) {
    auto const begin = std::chrono::steady_clock::now();
    auto const stages = plan_stages(model, options);
    if (!stages) return stages.error();
    if (world.size() != options.ranks()) {
        return Error{ErrorCode::invalid_argument}
            .in("tp * pp * ep")
            .because("is another number of ranks than the group has")
            .got(options.ranks())
            .expected(world.size());
    }
    auto const parameters = StoredParameters::open(files, model);
    auto const opened = parameters ? Result<>{} : Result<>{parameters.error()};
    if (auto const agreed = agree_on(world, opened); !agreed) return agreed.error();
    auto const headers = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    auto report = detail::run_opened(world, model, *parameters, requests, options, *stages);
    if (report) report->load_seconds += headers;
    return report;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
#endif
