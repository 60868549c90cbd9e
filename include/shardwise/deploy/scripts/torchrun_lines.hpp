// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/deploy/scripts/job_request.hpp>
#include <shardwise/deploy/shell_line.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A line for torchrun on each node, in the order of the plan's nodes. Where no hosts are given and there are several
/// nodes, the shell takes the first one's name from MASTER_ADDR and says so where it is not set.
///
/// Errors  those of check_job and check_alike
/// Source  PyTorch 2.8, torch/distributed/run.py
[[nodiscard]] inline Result<std::string> torchrun_lines(JobRequest const& request) {
    if (auto const checked = check_job(request); !checked) return checked.error();
    if (auto const checked = check_alike(request, "torchrun"); !checked) return checked.error();
    auto const& layout = request.layout;
    auto const per_node = std::to_string(layout.ranks.front());
    std::string text;
    for (std::int32_t node = 0; node < layout.nodes(); ++node) {
        if (request.cpus) text += "OMP_NUM_THREADS=" + std::to_string(*request.cpus) + " ";
        text += "torchrun --no-python ";
        if (layout.nodes() == 1) {
            text += "--standalone --nproc-per-node " + per_node;
        } else {
            text += "--nnodes " + std::to_string(layout.nodes()) + " --nproc-per-node " + per_node + " --node-rank " +
                    std::to_string(node) + " --master-addr " +
                    (request.hosts.empty() ? "\"${MASTER_ADDR:?is the name of the first node}\""
                                           : shell_word(request.hosts.front())) +
                    " --master-port " + std::to_string(request.port);
        }
        text += " " + shell_line(request.command) + "\n";
    }
    return text;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
