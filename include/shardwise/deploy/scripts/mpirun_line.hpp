// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/deploy/scripts/job_request.hpp>
#include <shardwise/deploy/shell_line.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The line for Open MPI's mpirun. Without hosts it runs where the allocation or the default hostfile says, which must
/// have a node for every one of the plan. Ranks are not bound to cores: their threads share those of the node.
///
/// Errors  those of check_job; invalid_argument without hosts where nodes have different numbers of ranks
/// Source  Open MPI 4.1, man mpirun
[[nodiscard]] inline Result<std::string> mpirun_line(JobRequest const& request) {
    if (auto const checked = check_job(request); !checked) return checked.error();
    auto const& layout = request.layout;
    std::vector<std::string> words{"mpirun", "-n", std::to_string(layout.total()), "--bind-to", "none"};
    if (!request.hosts.empty()) {
        std::string list;
        for (std::size_t i = 0; i < request.hosts.size(); ++i)
            list += (list.empty() ? "" : ",") + request.hosts[i] + ":" + std::to_string(layout.ranks[i]);
        words.emplace_back("--host");
        words.push_back(list);
    } else if (!layout.is_even()) {
        return Error{ErrorCode::invalid_argument}
            .in("hosts")
            .because("are not given, and the plan's nodes have different numbers of ranks")
            .fix("name the machines in the order of the plan's nodes");
    } else if (layout.nodes() > 1) {
        words.emplace_back("--map-by");
        words.push_back("ppr:" + std::to_string(layout.ranks.front()) + ":node");
    }
    if (request.cpus) {
        words.emplace_back("-x");
        words.push_back("OMP_NUM_THREADS=" + std::to_string(*request.cpus));
    }
    words.insert(words.end(), request.command.begin(), request.command.end());
    return shell_line(words) + "\n";
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
