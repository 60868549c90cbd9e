// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/session/plan_stages.hpp>
#include <shardwise/session/run_options.hpp>

#include <chrono>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Opens the parameters on every rank of a group and runs this one: run(parameters, stages).
template <class Run>
[[nodiscard]] Result<RunReport> run_over_group(HostCommunicator& world, OpenCheckpoint& files, Model const& model,
                                               RunOptions const& options, Run const& run) {
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
    auto report = run(*parameters, *stages);
    if (report) report->load_seconds += headers;
    return report;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
