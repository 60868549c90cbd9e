// SPDX-License-Identifier: Apache-2.0
#include <shardwise/deploy/make_container.hpp>
#include <shardwise/deploy/take_plan.hpp>
#include <shardwise/hardware/spec.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace shardwise;

namespace {

[[nodiscard]] Topology two_nodes() {
    auto topology = *parse_topology("2x(2xA100-80GB)");
    topology.devices[3].memory_free = Bytes{topology.devices[3].memory.count() / 4};
    return topology;
}

/// tp 2 in each of two stages; the last rank holds most.
[[nodiscard]] ParallelPlan plan_of(Topology const& topology) {
    ParallelPlan plan;
    plan.degrees.tp = 2;
    plan.degrees.pp = 2;
    plan.stages.resize(2);
    plan.stages[0].layer_count = 17;
    plan.stages[1].layer_count = 15;
    plan.ranks.resize(topology.devices.size());
    for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
        plan.ranks[i].device = static_cast<decltype(plan.ranks[i].device)>(i);
        plan.ranks[i].terms.weights = Bytes{(1LL + static_cast<std::int64_t>(i)) << 30U};
        plan.ranks[i].terms.kv_cache = Bytes{1LL << 28U};
    }
    return plan;
}

}  // namespace

TEST_CASE("container_devices: counted from 0 on each node") {
    auto const devices = container_devices(two_nodes());
    REQUIRE(devices.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(devices[i].node == static_cast<std::int32_t>(i / 2));
        CHECK(devices[i].index == static_cast<std::int32_t>(i % 2));
        CHECK(devices[i].render_node == 128 + static_cast<std::int32_t>(i % 2));
        CHECK(devices[i].architecture == "sm_80");
    }
}

TEST_CASE("take_plan: degrees, layers, and the bytes of the fullest rank") {
    auto const topology = two_nodes();
    DeployRequest request;
    request.engine = Engine::vllm;
    request.model = "org/name";
    request.config = presets::llama_3_8b;
    request.devices = container_devices(topology);
    request.stage_layers = {1};
    take_plan(plan_of(topology), topology, request);
    CHECK(request.tp == 2);
    CHECK(request.pp == 2);
    CHECK(request.stage_layers == std::vector<std::int64_t>{17, 15});
    CHECK(request.memory.weights == Bytes{4LL << 30U});
    CHECK(request.memory.kv_cache == Bytes{1LL << 28U});
    CHECK(request.memory.total == Bytes{(4LL << 30U) + (1LL << 28U)});
    CHECK(request.memory.device == topology.devices[0].memory);
    CHECK(request.memory.free.count() < 0);
    // The least share that is free counts on this machine's own devices.
    take_plan(plan_of(topology), topology, request, true);
    CHECK(request.memory.free == Bytes{topology.devices[3].memory.count() / 4});
    CHECK(make_container(request).has_value());
    request.devices.erase(request.devices.begin() + 1);
    request.devices.pop_back();
    auto const fewer = make_container(request);
    REQUIRE_FALSE(fewer.has_value());
    CHECK(fewer.error().message() == "devices: are 2, and the plan has tp 2 x pp 2; give the devices that the plan uses");
}
