// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/placement/filler.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The least memory whose addition to one device makes a contiguous placement possible, and that device.
struct Shortfall {
    DeviceId device{};
    Bytes missing{};
};

/// Nothing where the units fit; otherwise the device for which the fewest additional bytes suffice, the others as they are.
/// One byte less does not suffice on any device.
///
/// Order  O(units + devices)
[[nodiscard]] constexpr Optional<Shortfall> find_shortfall(ModuleSequence const& modules, Budgets const& budgets) {
    auto const& units = modules.units;
    auto const count = units.size();
    auto const forward = detail::fill_in_order(units, 0, count, budgets, detail::capacities_of(budgets));
    if (forward.placed == count) return std::nullopt;
    auto rest_from = detail::fill_backward(units, 0, count, budgets, detail::capacities_of(budgets));
    rest_from.push_back(count);
    Optional<Shortfall> least;
    for (std::size_t device = 0; device < budgets.size(); ++device) {
        detail::DeviceFill fill(budgets[device]);
        auto const begin = device == 0 ? 0 : forward.end_of[device - 1];
        for (auto i = begin; i < rest_from[device + 1]; ++i) fill.add(units[i]);
        auto const missing = fill.used() - budgets[device].capacity;
        if (!least || missing < least->missing) least = Shortfall{budgets[device].id, missing};
    }
    return least;
}

/// True where a contiguous placement of the units exists.
[[nodiscard]] constexpr bool fits_in_order(ModuleSequence const& modules, Budgets const& budgets) {
    auto const count = modules.units.size();
    return detail::fill_in_order(modules.units, 0, count, budgets, detail::capacities_of(budgets)).placed == count;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
