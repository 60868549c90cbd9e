// SPDX-License-Identifier: Apache-2.0
#include <shardwise/launch/distributed_context.hpp>

#include <shardwise/comm/broadcast.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

using namespace shardwise;

TEST_CASE("DistributedContext: tasks of one SLURM node meet in shared memory, without MPI") {
    auto const run = "slurm-" + std::to_string(getpid()) + ".0-0";
    std::int32_t seen[2] = {0, 0};
    bool is_right[2] = {false, false};
    auto const rank_of = [&](std::int32_t rank) {
        RankEnvironment environment;
        environment.launcher = RankLauncher::slurm;
        environment.rank = environment.local_rank = rank;
        environment.ranks = environment.local_ranks = 2;
        environment.node = 0;
        environment.run = run;
        auto joined = DistributedContext::join(environment, {.timeout = std::chrono::seconds(30)});
        if (!joined) return;
        is_right[rank] = joined->is_main() == (rank == 0) && joined->local_rank() == rank && joined->node() == 0;
        std::int32_t value = rank == 0 ? 42 : 0;
        if (broadcast(joined->world(), TensorView<std::int32_t, 1, Host>(&value, {1}), 0)) seen[rank] = value;
    };
    std::thread other(rank_of, 1);
    rank_of(0);
    other.join();
    CHECK((seen[0] == 42 && seen[1] == 42));
    CHECK((is_right[0] && is_right[1]));
}

}  // namespace
