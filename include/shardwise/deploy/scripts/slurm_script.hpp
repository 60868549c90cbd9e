// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/version.hpp>
#include <shardwise/deploy/scripts/job_request.hpp>
#include <shardwise/deploy/shell_line.hpp>

#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A batch script for SLURM's sbatch: as many tasks on each node as the plan has ranks there, all of which see all devices
/// of their node. What a site wants besides (partition, account, time) goes before the script: `sbatch --time=1:00:00
/// job.sh`. Arguments of the script are appended to `shardwise run`.
///
/// Never --gpus-per-task, which hides a task's devices from its neighbours: they could not copy to each other.
///
/// Errors  those of check_job and check_alike
/// Source  SLURM 22.05, man sbatch and srun; srun takes --cpus-per-task from no variable since 22.05
[[nodiscard]] inline Result<std::string> slurm_script(JobRequest const& request) {
    if (auto const checked = check_job(request); !checked) return checked.error();
    if (auto const checked = check_alike(request, "SLURM"); !checked) return checked.error();
    auto const& layout = request.layout;
    auto const per_node = std::to_string(layout.ranks.front());
    std::string text = "#!/bin/bash\n#SBATCH --job-name=" + request.name + "\n#SBATCH --nodes=" +
                       std::to_string(layout.nodes()) + "\n#SBATCH --ntasks-per-node=" + per_node + "\n";
    if (layout.has_accelerators()) {
        auto const type = request.device_type.empty() ? std::string() : request.device_type + ":";
        text += "#SBATCH --gpus-per-node=" + type + per_node + "\n";
    }
    text += "#SBATCH --cpus-per-task=" + std::to_string(request.cpus.value_or(1)) + "\n";
    text += "#SBATCH --distribution=block\n#SBATCH --signal=TERM@60\n#SBATCH --output=%x-%j.out\n";
    if (!request.hosts.empty()) {
        std::string list;
        for (auto const& host : request.hosts) list += (list.empty() ? "" : ",") + host;
        text += "#SBATCH --nodelist=" + list + "\n";
    }
    text +=
        "\nset -euo pipefail\n"
        "hosts=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n"
        "MASTER_ADDR=${hosts%%$'\\n'*}\n"
        "MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))\n"
        "OMP_NUM_THREADS=${OMP_NUM_THREADS:-$SLURM_CPUS_PER_TASK}\n"
        "export MASTER_ADDR MASTER_PORT OMP_NUM_THREADS\n\n"
        "exec srun --kill-on-bad-exit=1 --label --cpus-per-task=\"$SLURM_CPUS_PER_TASK\" ";
    // Its ranks meet by SLURM's variables, whatever MPI the site starts tasks for.
    if (request.is_run) text += "--mpi=none ";
    text += "\\\n    " + shell_line(request.command);
    // The prompt, and whatever else is to be said of one run.
    if (request.is_run) text += " \"$@\"";
    return text + "\n";
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
