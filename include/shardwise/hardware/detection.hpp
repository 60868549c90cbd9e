// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/hardware/system/processor.hpp>
#include <shardwise/hardware/system/system_memory.hpp>
#include <shardwise/hardware/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What was found on this machine.
struct Detection {
    std::vector<DetectedDevice> devices;
    /// Between pairs of GPUs; pairs that are not listed are unknown.
    std::vector<DetectedLink> links;
    Processor processor;
    SystemMemory memory;
    std::vector<std::string> warnings;

    /// The way between two devices, by their positions: "X" to itself, "" where it is unknown, as between MIG
    /// instances.
    [[nodiscard]] std::string_view word_between(std::size_t first, std::size_t second) const {
        if (first == second) return "X";
        for (auto const& link : links) {
            auto const a = static_cast<std::size_t>(link.first);
            auto const b = static_cast<std::size_t>(link.second);
            if ((a == first && b == second) || (a == second && b == first)) return link.word;
        }
        return {};
    }
};

/// The devices that this process may use, and the ways between them: a topology to plan with.
///
/// Order  as detected: accelerators, then the processor
[[nodiscard]] inline Topology topology_of(Detection const& detection) {
    Topology topology;
    std::vector<std::int32_t> position(detection.devices.size(), -1);
    for (std::size_t i = 0; i < detection.devices.size(); ++i) {
        if (!detection.devices[i].is_available) continue;
        position[i] = static_cast<std::int32_t>(topology.devices.size());
        topology.devices.push_back(detection.devices[i].device);
    }
    for (auto const& link : detection.links) {
        auto const first = position[static_cast<std::size_t>(link.first)];
        auto const second = position[static_cast<std::size_t>(link.second)];
        if (first < 0 || second < 0) continue;
        auto const usual = topology.between(static_cast<std::size_t>(first), static_cast<std::size_t>(second));
        if (!(usual == link.link)) topology.links.push_back({first, second, link.link});
    }
    return topology;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
