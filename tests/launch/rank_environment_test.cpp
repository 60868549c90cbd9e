// SPDX-License-Identifier: Apache-2.0
#include <shardwise/launch/rank_environment.hpp>

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>

namespace {

using namespace shardwise;
using Variables = std::map<std::string, std::string>;

Result<RankEnvironment> read(Variables const& variables) {
    return read_rank_environment([&](char const* name) -> std::optional<std::string> {
        auto const found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
    });
}

std::string refusal(Variables const& variables) {
    auto const ranks = read(variables);
    return ranks ? std::string() : ranks.error().message();
}

Variables const torchrun{
    {"RANK", "5"},           {"WORLD_SIZE", "8"},      {"LOCAL_RANK", "1"},           {"LOCAL_WORLD_SIZE", "4"},
    {"MASTER_ADDR", "head"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "job"}};
Variables const open_mpi{{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};

Variables with(Variables variables, Variables const& more) {
    for (auto const& [name, value] : more) variables[name] = value;
    return variables;
}
Variables without(Variables variables, char const* name) {
    variables.erase(name);
    return variables;
}

TEST_CASE("read_rank_environment: the first complete set of variables wins") {
    auto const none = read({});
    REQUIRE(none);
    CHECK((none->launcher == RankLauncher::none && none->rank == 0 && none->ranks == 1));
    auto const torch = read(with({{"OMPI_COMM_WORLD_RANK", "5"}}, torchrun));
    REQUIRE(torch);
    CHECK(torch->launcher == RankLauncher::torchrun);
    CHECK((torch->rank == 5 && torch->ranks == 8 && torch->local_rank == 1 && torch->local_ranks == 4));
    CHECK((torch->address == "head" && torch->port == 29500 && torch->run == "job"));
    CHECK_FALSE(torch->is_one_machine());
    auto const mpi = read(with(open_mpi, {{"RANK", "0"}}));
    REQUIRE(mpi);
    CHECK((mpi->launcher == RankLauncher::open_mpi && mpi->rank == 2 && mpi->ranks == 3 && mpi->is_one_machine()));
    auto const pmi = read({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
    REQUIRE(pmi);
    CHECK((pmi->launcher == RankLauncher::pmi && pmi->rank == 1 && pmi->ranks == 2));
    Variables const batch{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "0"}};
    auto const script = read(batch);
    REQUIRE(script);
    CHECK(script->launcher == RankLauncher::none);
    CHECK_FALSE(torch->has_mpi);
    CHECK(mpi->has_mpi);
}

// As printed in man srun: "SLURM_TASKS_PER_NODE=2(x3),1" is two tasks on each of three nodes and one on the fourth.
Variables const step{{"SLURM_PROCID", "3"},         {"SLURM_NTASKS", "5"},
                     {"SLURM_LOCALID", "1"},        {"SLURM_NODEID", "1"},
                     {"SLURM_JOB_ID", "7"},         {"SLURM_STEP_ID", "2"},
                     {"SLURM_SUBMIT_DIR", "/home"}, {"SLURM_TASKS_PER_NODE", "2(x2),1"},
                     {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}};

TEST_CASE("read_rank_environment: SLURM's list of tasks gives the ranks of each node") {
    auto const middle = read(step);
    REQUIRE_MESSAGE(middle, refusal(step));
    CHECK((middle->launcher == RankLauncher::slurm && middle->rank == 3 && middle->ranks == 5));
    CHECK((middle->local_rank == 1 && middle->local_ranks == 2 && middle->node == 1));
    CHECK_FALSE(middle->is_one_machine());
    CHECK_FALSE(middle->has_mpi);
    CHECK((middle->run == "slurm-7.2-0" && middle->folder == "/home/.shardwise-slurm-7.2-0"));
    auto const last = read(with(step, {{"SLURM_PROCID", "4"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "2"}}));
    REQUIRE(last);
    CHECK(last->local_ranks == 1);
    auto const pmix = read(with(step, {{"PMIX_RANK", "3"}}));
    REQUIRE(pmix);
    CHECK(pmix->has_mpi);
    // The step's own list beats the job's.
    auto const own = read(with(step, {{"SLURM_STEP_TASKS_PER_NODE", "3,2"}}));
    REQUIRE(own);
    CHECK(own->local_ranks == 2);
    for (auto const* list : {"", "2(x2", "2(x2),", "2x2,1", "-2", "0,5", "2(y2),1", "99999999999", "2(x0),5"}) {
        CAPTURE(list);
        CHECK(refusal(with(step, {{"SLURM_TASKS_PER_NODE", list}})).find("is no list of tasks") != std::string::npos);
    }
    CHECK(refusal(with(step, {{"SLURM_TASKS_PER_NODE", "2(x3)"}})).find("SLURM_NTASKS") != std::string::npos);
    CHECK(refusal(with(step, {{"SLURM_TASKS_PER_NODE", "2147483647(x2147483647),1"}})).find("SLURM_NTASKS") !=
          std::string::npos);
    CHECK(refusal(with(step, {{"SLURM_NODEID", "3"}})).find("SLURM_NODEID") != std::string::npos);
    CHECK(refusal(with(step, {{"SLURM_LOCALID", "2"}})).find("SLURM_LOCALID") != std::string::npos);
    CHECK(refusal(without(step, "SLURM_TASKS_PER_NODE")).find("SLURM_TASKS_PER_NODE") != std::string::npos);
}

TEST_CASE("read_rank_environment: two complete sets that contradict each other are an error that names both") {
    auto const both = refusal(with(open_mpi, torchrun));
    CHECK(both.find("torchrun's rank 5 of 8: contradicts Open MPI's rank 2 of 3") != std::string::npos);
    CHECK(refusal(with(step, open_mpi)).find("contradicts SLURM's rank 3 of 5") != std::string::npos);
    // The same said twice (srun --mpi=pmi2), and a torchrun on each node, are no contradictions.
    auto const same = read(with(step, {{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}}));
    REQUIRE(same);
    CHECK(same->launcher == RankLauncher::pmi);
    auto const nested = read(with(with(step, {{"SLURM_PROCID", "1"},
                                              {"SLURM_NTASKS", "2"},
                                              {"SLURM_LOCALID", "0"},
                                              {"SLURM_TASKS_PER_NODE", "1(x2)"}}),
                                  with(torchrun, {{"GROUP_RANK", "1"}})));
    REQUIRE(nested);
    CHECK((nested->launcher == RankLauncher::torchrun && nested->rank == 5 && nested->node == 1));
}

TEST_CASE("read_rank_environment: half-set and contradicting variables are refused by name") {
    auto const half = refusal(without(torchrun, "WORLD_SIZE"));
    CHECK(half.find("WORLD_SIZE") != std::string::npos);
    CHECK(half.find("set all of them or none") != std::string::npos);
    CHECK(refusal(without(torchrun, "MASTER_PORT")).find("MASTER_PORT") != std::string::npos);
    CHECK(refusal({{"PMI_RANK", "1"}}).find("PMI_SIZE") != std::string::npos);
    CHECK(refusal(with(torchrun, {{"RANK", "8"}})).find("RANK: is no rank of the job") != std::string::npos);
    CHECK(refusal(with(torchrun, {{"LOCAL_WORLD_SIZE", "9"}})).find("LOCAL_WORLD_SIZE") != std::string::npos);
    CHECK(refusal(with(torchrun, {{"RANK", "0"}})).find("LOCAL_RANK") != std::string::npos);
    CHECK(refusal(with(torchrun, {{"MASTER_PORT", "0"}})).find("is no port") != std::string::npos);
    CHECK(refusal(with(torchrun, {{"WORLD_SIZE", "two"}})).find("is not a whole number") != std::string::npos);
    CHECK(refusal(with(torchrun, {{"WORLD_SIZE", ""}})).find("is not a whole number") != std::string::npos);
}

}  // namespace
