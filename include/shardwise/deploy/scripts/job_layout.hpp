// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/hardware/spec.hpp>
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

/// The devices on one node of a SPEC, by which plans are made; negative where the text is no SPEC (a description of
/// machines that have no preset).
[[nodiscard]] inline std::int64_t devices_on_node(std::string_view spec, std::int32_t node) {
    auto const devices = parse_device_spec(spec);
    if (!devices) return -1;
    return std::count_if(devices->begin(), devices->end(), [node](Device const& device) {
        return device.node == node && device.id.is_accelerator();
    });
}

}  // namespace detail

/// Finds out what machines a plan takes.
///
/// Errors  unsupported where ranks of one node do not have consecutive numbers; invalid_field where a node has more ranks
///         than the plan's devices give it
[[nodiscard]] inline Result<JobLayout> layout_of(SavedPlan const& plan) {
    JobLayout layout;
    std::set<std::int32_t> seen;
    std::int32_t node = -1;
    std::string const plan_devices = "ranks";
    auto const check_node = [&]() -> Result<> {
        if (layout.ranks.empty()) return {};
        auto const devices = detail::devices_on_node(plan.devices, node);
        if (devices < 0 || layout.ranks.back() <= devices) return {};
        return Error{ErrorCode::invalid_field}
            .in(plan_devices)
            .at("node " + std::to_string(node))
            .because("takes more devices than this node of the plan's devices, " + plan.devices + ", has")
            .got(layout.ranks.back())
            .at_most(devices)
            .fix("write the plan again for the devices that there are");
    };
    for (auto const& rank : plan.ranks) {
        if (layout.ranks.empty() || rank.node != node) {
            if (auto const checked = check_node(); !checked) return checked.error();
            node = rank.node;
            if (!seen.insert(node).second) {
                return Error{ErrorCode::unsupported}
                    .in(plan_devices)
                    .at("node " + std::to_string(node))
                    .because("has ranks whose numbers do not follow each other, and launchers number ranks node by node")
                    .fix("plan with another --tp or --pp, or for devices that are alike");
            }
            layout.ranks.push_back(0);
        }
        ++layout.ranks.back();
        layout.is_mixed = layout.is_mixed || rank.device_name != plan.ranks.front().device_name;
    }
    if (auto const checked = check_node(); !checked) return checked.error();
    if (plan.ranks.empty()) {
        return Error{ErrorCode::invalid_field}.in(plan_devices).because("are none").fix("write the plan again");
    }
    layout.kind = plan.ranks.front().kind;
    return layout;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
