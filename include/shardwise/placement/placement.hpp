// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/placement/budget.hpp>
#include <shardwise/placement/unit.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What `optimal` minimises once as little as possible is on disk and on the cpu.
enum class Objective : std::uint8_t {
    load,        // the largest used / capacity
    bottleneck,  // the slowest stage's seconds
    latency,     // all stages' and links' seconds
};

[[nodiscard]] constexpr std::string_view name_of(Objective objective) {
    switch (objective) {
        case Objective::load: return "load";
        case Objective::bottleneck: return "bottleneck";
        case Objective::latency: return "latency";
    }
    return "unknown";
}

/// What is known of a placement's quality: no placement of the kind searched has a value below the lower bound.
///
/// Units  a ratio for load, seconds otherwise
struct Certificate {
    Objective objective = Objective::load;
    double value = 0.0;
    double lower_bound = 0.0;

    /// How far the value is above the bound, relative to it.
    [[nodiscard]] constexpr double gap() const { return lower_bound > 0.0 ? value / lower_bound - 1.0 : 0.0; }
};

/// Which budget holds each unit, by index.
struct Placement {
    List<std::int32_t> device_of;
    Optional<Certificate> certificate;
};

/// What a placement takes on each device, by the index of its budget: resident bytes, the largest workspace, the overhead.
[[nodiscard]] constexpr List<Bytes> used_bytes(ModuleSequence const& modules, Budgets const& budgets,
                                                      Placement const& placement) {
    List<Bytes> used(budgets.size());
    List<Bytes> workspace(budgets.size());
    for (std::size_t unit = 0; unit < modules.units.size(); ++unit) {
        auto const device = static_cast<std::size_t>(placement.device_of[unit]);
        used[device] += modules.units[unit].resident();
        if (workspace[device] < modules.units[unit].workspace) workspace[device] = modules.units[unit].workspace;
    }
    for (std::size_t device = 0; device < budgets.size(); ++device) {
        if (used[device] > Bytes{}) used[device] += budgets[device].overhead;
        // What lies on disk is streamed through another device.
        if (budgets[device].id.kind != DeviceClass::disk) used[device] += workspace[device];
    }
    return used;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
