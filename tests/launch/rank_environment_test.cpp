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
    auto const torch = read(with(open_mpi, torchrun));
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
    auto const step = read(with(batch, {{"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}}));
    REQUIRE(step);
    CHECK((step->launcher == RankLauncher::slurm && step->rank == 1 && step->ranks == 4 && step->local_rank == 1));
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
