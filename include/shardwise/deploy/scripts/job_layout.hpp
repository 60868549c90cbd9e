// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/hardware/spec.hpp>
#include <shardwise/hardware/topology.hpp>
#include <shardwise/plan/parallel_plan.hpp>
#include <shardwise/plan/saved_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The machines that a job takes, and how many ranks, with a device each, run on each of them: ranks of one machine have
/// consecutive numbers.
struct JobLayout {
    /// Ranks of each node, in the order of their numbers.
    std::vector<std::int32_t> ranks;
    /// What drives the devices; that of the first rank.
    DeviceKind kind = DeviceKind::cuda;
    /// The devices have more than one name.
    bool is_mixed = false;

    [[nodiscard]] std::int32_t nodes() const { return static_cast<std::int32_t>(ranks.size()); }
    [[nodiscard]] std::int32_t total() const {
        std::int32_t sum = 0;
        for (auto const count : ranks) sum += count;
        return sum;
    }
    /// Every node has as many ranks as the first one.
    [[nodiscard]] bool is_even() const {
        return std::all_of(ranks.begin(), ranks.end(), [this](auto count) { return count == ranks.front(); });
    }
    /// Devices that a scheduler is to be asked for.
    [[nodiscard]] bool has_accelerators() const { return kind != DeviceKind::cpu; }
};

namespace detail {

/// The devices on one node of a SPEC, by which plans are made; negative where the text is none (that of
/// machines without a preset).
[[nodiscard]] inline std::int64_t devices_on_node(std::string_view spec, std::int32_t node) {
    auto const devices = parse_device_spec(spec);
    if (!devices) return -1;
    return std::count_if(devices->begin(), devices->end(), [node](Device const& device) {
        return device.node == node && device.id.is_accelerator();
    });
}

/// Where one rank runs.
struct RankOnNode {
    std::int32_t node;
    DeviceKind kind;
    std::string_view device;
};

/// Counts the ranks of each node; `spec` is what the plan was made for.
[[nodiscard]] inline Result<JobLayout> gather_ranks(std::vector<RankOnNode> const& ranks, std::string_view spec) {
    if (ranks.empty()) return Error{ErrorCode::invalid_field}.in("ranks").because("are none").fix("write the plan again");
    JobLayout layout;
    layout.kind = ranks.front().kind;
    std::set<std::int32_t> seen;
    std::int32_t node = -1;
    auto const node_text = [&node] { return "node " + std::to_string(node); };
    auto const check_node = [&]() -> Result<> {
        if (layout.ranks.empty()) return {};
        auto const devices = devices_on_node(spec, node);
        if (devices < 0 || layout.ranks.back() <= devices) return {};
        return Error{ErrorCode::invalid_field}
            .in("ranks")
            .at(node_text())
            .because("takes more devices than this node of the plan's devices, " + std::string(spec.substr(0, 100)) + ", has")
            .got(layout.ranks.back())
            .at_most(devices)
            .fix("write the plan again for the devices that there are");
    };
    for (auto const& rank : ranks) {
        if (rank.node != node || layout.ranks.empty()) {
            if (auto const checked = check_node(); !checked) return checked.error();
            node = rank.node;
            if (!seen.insert(node).second) {
                return Error{ErrorCode::unsupported}
                    .in("ranks")
                    .at(node_text())
                    .because("has ranks whose numbers do not follow each other, and launchers number ranks node by node")
                    .fix("plan with another --tp or --pp, or for devices that are alike");
            }
            layout.ranks.push_back(0);
        }
        ++layout.ranks.back();
        layout.is_mixed = layout.is_mixed || rank.device != ranks.front().device || rank.kind != layout.kind;
    }
    if (auto const checked = check_node(); !checked) return checked.error();
    return layout;
}

}  // namespace detail

/// Finds out what machines a saved plan takes.
///
/// Errors  unsupported where ranks of one node do not have consecutive numbers; invalid_field where a node has more ranks
///         than the plan's devices give it
[[nodiscard]] inline Result<JobLayout> layout_of(SavedPlan const& plan) {
    std::vector<detail::RankOnNode> ranks;
    for (auto const& rank : plan.ranks) ranks.push_back({rank.node, rank.kind, rank.device_name});
    return detail::gather_ranks(ranks, plan.devices);
}

/// The same for a plan that was just made for a topology.
///
/// Errors  unsupported as above
[[nodiscard]] inline Result<JobLayout> layout_of(ParallelPlan const& plan, Topology const& topology) {
    std::vector<detail::RankOnNode> ranks;
    for (auto const& rank : plan.ranks) {
        auto const& device = topology.devices[static_cast<std::size_t>(rank.device)];
        ranks.push_back({device.node, device.kind, device.name.view()});
    }
    return detail::gather_ranks(ranks, {});
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
