// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/deploy/deploy_request.hpp>
#include <shardwise/hardware/topology.hpp>
#include <shardwise/plan/parallel_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The accelerators of a topology as containers are given them: counted from 0 on each node.
[[nodiscard]] inline std::vector<ContainerDevice> container_devices(Topology const& topology) {
    std::vector<ContainerDevice> devices;
    for (auto const& device : topology.accelerators()) {
        std::int32_t index = 0;
        for (auto const& other : devices) index += other.node == device.node ? 1 : 0;
        devices.push_back({.index = index,
                           .uuid = {},
                           .render_node = 128 + index,
                           .node = device.node,
                           .kind = device.kind,
                           .name = std::string(device.name.view()),
                           .architecture = std::string(device.architecture.view())});
    }
    return devices;
}

/// Writes a plan's degrees, the layers of its stages and the bytes of its fullest rank, as a share of its device, into the
/// request. Only with `is_own`, for devices of this machine, does what is free on them count.
inline void take_plan(ParallelPlan const& plan, Topology const& topology, DeployRequest& request, bool is_own = false) {
    request.tp = plan.degrees.tp;
    request.pp = plan.degrees.pp;
    request.stage_layers.clear();
    for (auto const& stage : plan.stages) request.stage_layers.push_back(stage.layer_count);
    auto const share = [](Bytes part, Bytes whole) {
        return static_cast<double>(part.count()) / static_cast<double>(std::max<std::int64_t>(whole.count(), 1));
    };
    auto& memory = request.memory;
    memory = {};
    double min_free = 2.0;
    for (auto const& rank : plan.ranks) {
        auto const& device = topology.devices[static_cast<std::size_t>(rank.device)];
        if (device.memory_free.count() >= 0) min_free = std::min(min_free, share(device.memory_free, device.memory));
        if (memory.device.count() > 0 && share(rank.terms.total(), device.memory) <= share(memory.total, memory.device))
            continue;
        memory.weights = rank.terms.weights;
        memory.kv_cache = rank.terms.kv_cache;
        memory.total = rank.terms.total();
        memory.device = device.memory;
    }
    if (is_own && min_free <= 1.0)
        memory.free = Bytes{static_cast<std::int64_t>(min_free * static_cast<double>(memory.device.count()))};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
