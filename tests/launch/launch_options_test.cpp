// SPDX-License-Identifier: Apache-2.0
#include <shardwise/launch/launch_options.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace {

using namespace shardwise;

LaunchOptions options(std::int32_t processes, std::int32_t nodes = 1, std::int32_t node = 0) {
    LaunchOptions out;
    out.command = {"true"};
    out.processes = processes;
    out.nodes = nodes;
    out.node = node;
    if (nodes > 1) out.address = "10.0.0.1", out.port = 29500;
    return out;
}
std::string refusal(LaunchOptions const& wrong) {
    auto const checked = check_launch(wrong);
    return checked ? "" : checked.error().message();
}

TEST_CASE("variables_of_rank: torchrun's, as read back") {
    auto two = options(4, 2, 1);
    two.run = "job";
    two.max_restarts = 3;
    two.threads = 10;
    ::unsetenv("OMP_NUM_THREADS");
    std::map<std::string, std::string> got;
    for (auto const& [name, value] : variables_of_rank(two, 2, 1)) got[name] = value;
    // https://docs.pytorch.org/docs/stable/elastic/run.html, "Environment Variables"
    CHECK(got["RANK"] == "6");
    CHECK(got["WORLD_SIZE"] == "8");
    CHECK(got["LOCAL_RANK"] == "2");
    CHECK(got["LOCAL_WORLD_SIZE"] == "4");
    CHECK(got["GROUP_RANK"] == "1");
    CHECK(got["GROUP_WORLD_SIZE"] == "2");
    CHECK(got["ROLE_RANK"] == "6");
    CHECK(got["MASTER_ADDR"] == "10.0.0.1");
    CHECK(got["MASTER_PORT"] == "29500");
    CHECK(got["TORCHELASTIC_RUN_ID"] == "job");
    CHECK(got["TORCHELASTIC_RESTART_COUNT"] == "1");
    CHECK(got["TORCHELASTIC_MAX_RESTARTS"] == "3");
    CHECK(got["OMP_NUM_THREADS"] == "2");
    auto const read = read_rank_environment([&](char const* name) -> std::optional<std::string> {
        auto const found = got.find(name);
        return found == got.end() ? std::nullopt : std::optional<std::string>(found->second);
    });
    REQUIRE(read);
    CHECK((read->rank == 6 && read->ranks == 8 && read->local_rank == 2 && read->local_ranks == 4 && read->node == 1));
    CHECK(read->run == "job-1");
}

TEST_CASE("variables_of_rank: OMP_NUM_THREADS stays where it is set, and is at least 1") {
    auto many = options(64);
    many.threads = 8;
    CHECK(variables_of_rank(many, 0, 0).back() == std::pair<std::string, std::string>("OMP_NUM_THREADS", "1"));
    ::setenv("OMP_NUM_THREADS", "7", 1);
    for (auto const& [name, value] : variables_of_rank(many, 0, 0)) CHECK(name != "OMP_NUM_THREADS");
    ::unsetenv("OMP_NUM_THREADS");
}

TEST_CASE("environment_of_rank: this process's, but for the rank's own and what its device takes away") {
    ::setenv("RANK", "99", 1);
    ::setenv("SHARDWISE_LAUNCH_TEST", "kept", 1);
    ::setenv("HIP_VISIBLE_DEVICES", "3", 1);
    auto one = options(1);
    one.devices = {{"GPU-1", {{"ROCR_VISIBLE_DEVICES", "GPU-1"}}, {"HIP_VISIBLE_DEVICES"}, {}}};
    std::map<std::string, int> count;
    for (auto const& entry : environment_of_rank(one, 0, 0)) ++count[entry];
    CHECK(count["RANK=0"] == 1);
    CHECK(count["RANK=99"] == 0);
    CHECK(count["SHARDWISE_LAUNCH_TEST=kept"] == 1);
    CHECK(count["HIP_VISIBLE_DEVICES=3"] == 0);
    CHECK(count["ROCR_VISIBLE_DEVICES=GPU-1"] == 1);
    for (auto const* name : {"RANK", "SHARDWISE_LAUNCH_TEST", "HIP_VISIBLE_DEVICES"}) ::unsetenv(name);
}

TEST_CASE("check_launch: what cannot work is refused by name") {
    CHECK(refusal(options(1)) == "");
    CHECK(refusal(options(8, 2, 1)) == "");
    CHECK(refusal({}).find("command") == 0);
    CHECK(refusal(options(0)).find("processes") == 0);
    CHECK(refusal(options(1, 0)).find("nodes") == 0);
    CHECK(refusal(options(4096, 4096)).find("nodes") == 0);
    CHECK(refusal(options(1, 2, 2)).find("node: is none of the machines") == 0);
    auto two = options(1, 2);
    two.max_restarts = 1;
    CHECK(refusal(two).find("max_restarts: is for one machine") == 0);
    two = options(1, 2);
    two.address = "";
    CHECK(refusal(two).find("address: is missing") == 0);
    two = options(1, 2);
    two.port = 0;
    CHECK(refusal(two).find("port: is missing") == 0);
    auto one = options(2);
    one.devices.resize(1);
    CHECK(refusal(one).find("devices") == 0);
}

TEST_CASE("find_free_port: a port that can be listened on") {
    auto const port = find_free_port();
    REQUIRE(port);
    CHECK(*port > 1023);
    int const listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(*port));
    CHECK(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    ::close(listener);
}

}  // namespace
