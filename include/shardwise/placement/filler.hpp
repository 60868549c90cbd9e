// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/placement/placement.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Fills one device with consecutive units. What a device needs never shrinks when a unit is added, so the longest run that
/// fits leaves the least for the devices after it: filling greedily in order finds a contiguous placement whenever one exists.
class DeviceFill {
public:
    constexpr explicit DeviceFill(Budget const& budget)
        : overhead_(budget.overhead), counts_workspace_(budget.id.kind != DeviceClass::disk) {}

    /// What the device would need with this unit too.
    [[nodiscard]] constexpr Bytes with(PlacementUnit const& unit) const {
        auto const resident = resident_ + unit.resident();
        auto const workspace = unit.workspace > workspace_ ? unit.workspace : workspace_;
        return total(resident, workspace);
    }
    constexpr void add(PlacementUnit const& unit) {
        resident_ += unit.resident();
        if (unit.workspace > workspace_) workspace_ = unit.workspace;
    }
    [[nodiscard]] constexpr Bytes used() const { return total(resident_, workspace_); }

private:
    [[nodiscard]] constexpr Bytes total(Bytes resident, Bytes workspace) const {
        auto sum = resident;
        if (counts_workspace_) sum += workspace;
        if (resident > Bytes{}) sum += overhead_;
        return sum;
    }

    Bytes resident_{};
    Bytes workspace_{};
    Bytes overhead_;
    bool counts_workspace_;
};

/// Where each device's run of units ends when devices are filled in order up to `limits`; units left over lie beyond the last.
struct Filling {
    List<std::size_t> end_of;
    /// Units that found a place.
    std::size_t placed = 0;
};

/// Fills devices [0, limits.size()) in order, each as far as its limit allows, with units [begin, end).
[[nodiscard]] constexpr Filling fill_in_order(List<PlacementUnit> const& units, std::size_t begin, std::size_t end,
                                              Budgets const& budgets, List<Bytes> const& limits) {
    Filling filling;
    auto next = begin;
    for (std::size_t device = 0; device < limits.size(); ++device) {
        DeviceFill fill(budgets[device]);
        while (next < end && fill.with(units[next]) <= limits[device]) fill.add(units[next++]);
        filling.end_of.push_back(next);
    }
    filling.placed = next - begin;
    return filling;
}

/// The earliest unit from which on the devices hold all units before `end`, filled from the last one back: for each device, where
/// its own run would begin. Runs that begin later fit too. Nothing is below `begin`.
[[nodiscard]] constexpr List<std::size_t> fill_backward(List<PlacementUnit> const& units, std::size_t begin, std::size_t end,
                                                        Budgets const& budgets, List<Bytes> const& limits) {
    List<std::size_t> begin_of(limits.size(), end);
    auto first = end;
    for (auto device = limits.size(); device-- > 0;) {
        DeviceFill fill(budgets[device]);
        while (first > begin && fill.with(units[first - 1]) <= limits[device]) fill.add(units[--first]);
        begin_of[device] = first;
    }
    return begin_of;
}

/// The placement that a filling of all units from the first one means.
[[nodiscard]] constexpr Placement to_placement(Filling const& filling, std::size_t unit_count) {
    Placement placement;
    placement.device_of.reserve(unit_count);
    std::size_t device = 0;
    for (std::size_t unit = 0; unit < unit_count; ++unit) {
        while (unit >= filling.end_of[device]) ++device;
        placement.device_of.push_back(static_cast<std::int32_t>(device));
    }
    return placement;
}

/// The capacities of the budgets.
[[nodiscard]] constexpr List<Bytes> capacities_of(Budgets const& budgets) {
    List<Bytes> limits;
    for (auto const& budget : budgets) limits.push_back(budget.capacity);
    return limits;
}

/// The refusal that names the unit for which the devices have no room.
[[nodiscard]] constexpr Error does_not_fit(List<PlacementUnit> const& units, Budgets const& budgets,
                                           Filling const& filling) {
    auto const& unit = units[filling.placed];
    Bytes room{};
    for (std::size_t device = 0; device < filling.end_of.size(); ++device) {
        DeviceFill fill(budgets[device]);
        auto const first = device == 0 ? 0 : filling.end_of[device - 1];
        for (auto i = first; i < filling.end_of[device]; ++i) fill.add(units[i]);
        auto const left = budgets[device].capacity - fill.used();
        if (left > room) room = left;
    }
    Error error{ErrorCode::out_of_memory};
    if (unit.layer.value() >= 0) {
        error.layer(unit.layer);
    } else {
        error.at(unit.path);
    }
    return error.needs(unit.resident() + unit.workspace).has(room).fix("add a device, quantize, lower the context, or allow cpu");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
