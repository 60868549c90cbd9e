// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/device_classes.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The devices of a topology with their nodes and the links between any two of them.
class DeviceWiring {
public:
    explicit DeviceWiring(Topology const& topology, bool counts_runtime = true, CacheKind const& cache = {})
        : devices_(topology.accelerators()), classes_(topology, counts_runtime, cache) {
        neighbours_.resize(topology.links.empty() ? 0 : devices_.size());
        for (auto const& pair : topology.links) {
            auto const count = static_cast<std::int32_t>(devices_.size());
            if (pair.first < 0 || pair.second < 0 || pair.first >= count || pair.second >= count) continue;
            neighbours_[static_cast<std::size_t>(pair.first)].push_back({pair.second, pair.link});
            neighbours_[static_cast<std::size_t>(pair.second)].push_back({pair.first, pair.link});
        }
        List<std::int32_t> nodes;
        List<std::int64_t> sizes;
        List<std::size_t> node_classes;
        for (auto const& device : devices_) {
            auto const index = classes_.of(static_cast<std::int32_t>(node_of_.size()));
            auto node = nodes.size();
            while (node > 0 && nodes[node - 1] != device.node) --node;
            if (node == 0) {
                nodes.push_back(device.node);
                sizes.push_back(0);
                node_classes.push_back(index);
                node = nodes.size();
            }
            has_plain_nodes_ = has_plain_nodes_ && node == nodes.size() && node_classes[node - 1] == index;
            node_of_.push_back(node - 1);
            if (largest_node_ < ++sizes[node - 1]) largest_node_ = sizes[node - 1];
        }
        node_count_ = nodes.size();
    }

    [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(devices_.size()); }
    [[nodiscard]] std::int64_t largest_node() const { return largest_node_; }
    [[nodiscard]] std::size_t node_count() const { return node_count_; }
    [[nodiscard]] DeviceClasses const& classes() const { return classes_; }
    [[nodiscard]] Device const& device(std::int32_t position) const {
        return devices_[static_cast<std::size_t>(position)];
    }
    /// The node of a device, counted from 0 in the order of the devices.
    [[nodiscard]] std::size_t node_of(std::int32_t position) const {
        return node_of_[static_cast<std::size_t>(position)];
    }
    /// True where each node's devices are of one class and come one after another.
    [[nodiscard]] bool has_plain_nodes() const { return has_plain_nodes_; }
    /// True where besides all nodes have the same number of devices.
    [[nodiscard]] bool has_even_nodes() const {
        return has_plain_nodes_ && largest_node_ * static_cast<std::int64_t>(node_count_) == count();
    }
    /// True where the topology names links between devices, so that those of one class and node may differ.
    [[nodiscard]] bool has_named_links() const { return !neighbours_.empty(); }

    [[nodiscard]] Link link(std::int32_t a, std::int32_t b) const {
        if (!neighbours_.empty()) {
            for (auto const& known : neighbours_[static_cast<std::size_t>(a)]) {
                if (known.device == b) return known.link;
            }
        }
        auto const& one = device(a);
        auto const& other = device(b);
        if (one.node == other.node) return detail::slower_link(one.link, other.link);
        return detail::slower_link(DeviceClasses::network_of(one), DeviceClasses::network_of(other));
    }

private:
    struct Neighbour {
        std::int32_t device = 0;
        Link link{};
    };

    std::span<Device const> devices_;
    DeviceClasses classes_;
    List<List<Neighbour>> neighbours_;
    List<std::size_t> node_of_;
    std::int64_t largest_node_ = 0;
    std::size_t node_count_ = 0;
    bool has_plain_nodes_ = true;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
