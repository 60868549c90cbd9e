// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/merge_picture.hpp>
#include <shardwise/plan/picture.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Groups of a node's devices that its best link joins, and what joins the groups.
struct LinkGroups {
    /// Where each group begins, and the number of accelerators; empty where there are not two groups or more.
    std::vector<std::size_t> begins;
    Link within{};
    Link between{};
};

/// The link of two devices of a node: the pair's, else the slower of what both say.
[[nodiscard]] inline Link link_of_pair(Picture const& picture, PictureNode const& node, PictureDevice const& first,
                                       PictureDevice const& second) {
    for (auto const& pair : picture.links) {
        bool const is_it = (pair.first == first.label && pair.second == second.label) ||
                           (pair.first == second.label && pair.second == first.label);
        if (is_it && pair.node == node.number) return pair.link;
    }
    return first.link.bandwidth <= second.link.bandwidth ? first.link : second.link;
}

/// Finds neighbours that all have one link to each other, in groups that all have another, slower one between them.
[[nodiscard]] inline LinkGroups link_groups(Picture const& picture, PictureNode const& node) {
    std::vector<PictureDevice const*> devices;
    for (auto const& device : node.devices) {
        if (device.count > 1) return {};
        if (device.is_accelerator) devices.push_back(&device);
    }
    LinkGroups groups;
    if (devices.size() < 4) return {};
    auto const pair = [&](std::size_t a, std::size_t b) {
        return link_of_pair(picture, node, *devices[a], *devices[b]);
    };
    auto const within = groups.within = pair(0, 1);
    std::size_t begin = 0;
    for (std::size_t i = 1; i < devices.size(); ++i) {
        if (pair(begin, i) == within) continue;
        groups.begins.push_back(begin);
        begin = i;
    }
    groups.begins.push_back(begin);
    groups.begins.push_back(devices.size());
    if (groups.begins.size() < 3) return {};
    auto const between = groups.between = pair(0, groups.begins[1]);
    if (!(between.bandwidth < within.bandwidth)) return {};
    auto const group_of = [&](std::size_t device) {
        return std::upper_bound(groups.begins.begin(), groups.begins.end(), device) - groups.begins.begin();
    };
    for (std::size_t g = 1; g < groups.begins.size(); ++g) {
        if (groups.begins[g] - groups.begins[g - 1] < 2) return {};
    }
    for (std::size_t a = 0; a < devices.size(); ++a) {
        for (auto b = a + 1; b < devices.size(); ++b) {
            if (pair(a, b) != (group_of(a) == group_of(b) ? within : between)) return {};
        }
    }
    return groups;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
