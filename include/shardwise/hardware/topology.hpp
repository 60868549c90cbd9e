// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/hardware/all_reduce_time.hpp>
#include <shardwise/hardware/device.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A link between two devices that differs from what the devices say themselves.
struct DeviceLink {
    /// Positions in the topology's list of devices.
    std::int32_t first = 0;
    std::int32_t second = 0;
    Link link{};

    friend constexpr bool operator==(DeviceLink const&, DeviceLink const&) = default;
};

/// Devices and the ways between them. Uniform parts cost nothing: a device says how it reaches its peers in its node
/// and how it reaches other nodes; only what differs is listed as a pair.
///
/// Order  devices as in a SPEC: accelerators first, then cpu, then disk
struct Topology {
    List<Device> devices;
    List<DeviceLink> links;
    /// Of ranks on the devices, where somebody measured them.
    List<AllReduceTime> all_reduce{};

    /// The accelerators: they come first.
    [[nodiscard]] constexpr Span<Device const> accelerators() const {
        std::size_t count = 0;
        while (count < devices.size() && devices[count].id.is_accelerator()) ++count;
        return {devices.data(), count};
    }

    /// The link from one device to another: the listed pair, else in a node the slower of what both say, else between
    /// nodes the slower of both networks.
    [[nodiscard]] constexpr Link between(std::size_t first, std::size_t second) const {
        for (auto const& pair : links) {
            auto const a = static_cast<std::size_t>(pair.first);
            auto const b = static_cast<std::size_t>(pair.second);
            if ((a == first && b == second) || (a == second && b == first)) return pair.link;
        }
        auto const& one = devices[first];
        auto const& other = devices[second];
        if (one.node == other.node) return slower(one.link, other.link);
        return slower(network_of(one), network_of(other));
    }

    /// The slowest link between any two of these devices: what a ring over them runs at. Latency is the largest.
    [[nodiscard]] constexpr Link slowest_between(Span<std::size_t const> group) const {
        Link slowest{};
        for (std::size_t i = 0; i < group.size(); ++i) {
            for (std::size_t k = i + 1; k < group.size(); ++k) {
                auto const link = between(group[i], group[k]);
                slowest = slowest.type == LinkType::none ? link : slower(slowest, link);
            }
        }
        return slowest;
    }

private:
    static constexpr Link network_of(Device const& device) {
        return device.network.type == LinkType::none ? default_network : device.network;
    }
    static constexpr Link slower(Link const& a, Link const& b) {
        auto result = a.bandwidth <= b.bandwidth ? a : b;
        result.latency = a.latency > b.latency ? a.latency : b.latency;
        return result;
    }
};

/// The same devices with no more memory than a plan may use of it (Device::usable).
[[nodiscard]] constexpr Topology with_utilization(Topology topology, double utilization) {
    for (auto& device : topology.devices) {
        device.memory_free = device.usable(utilization);
        device.is_whole_memory = false;
    }
    return topology;
}

/// The devices of a list, connected as each of them says.
[[nodiscard]] constexpr Topology topology_of(Span<Device const> devices) {
    Topology topology;
    topology.devices.append(devices.data(), devices.data() + devices.size());
    return topology;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
