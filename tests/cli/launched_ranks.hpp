// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

/// How launchers start ranks of the program.
namespace shardwise::tests {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// What torchrun tells one of its ranks.
inline Variables torchrun(int rank, int ranks, std::string const& port, int local_ranks = 0) {
    auto const local = std::to_string(local_ranks > 0 ? local_ranks : ranks);
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", std::to_string(ranks)},
            {"LOCAL_RANK", local_ranks == 1 ? "0" : std::to_string(rank)},
            {"LOCAL_WORLD_SIZE", local},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", port}};
}

/// Runs a command line of several words under mpirun.
inline std::vector<std::string> mpirun(int ranks, std::vector<std::string> const& words) {
    std::vector<std::string> all{"mpirun", "--allow-run-as-root", "--oversubscribe",
                                 "-n",     std::to_string(ranks), SHARDWISE_PROGRAM};
    all.insert(all.end(), words.begin(), words.end());
    return all;
}

}  // namespace shardwise::tests
