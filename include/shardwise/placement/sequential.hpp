// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/placement/filler.hpp>
#include <shardwise/placement/strategy.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Fills each device before it opens the next: the fewest devices, the first ones full.
///
/// Errors  out_of_memory that names the unit for which no device has room
struct Sequential {
    std::string_view name = "sequential";

    constexpr Result<Placement> operator()(ModuleSequence const& modules, Budgets const& budgets) const {
        auto const count = modules.units.size();
        auto const filling = detail::fill_in_order(modules.units, 0, count, budgets, detail::capacities_of(budgets));
        if (filling.placed < count) return detail::does_not_fit(modules.units, budgets, filling);
        return detail::to_placement(filling, count);
    }
};

static_assert(PlacementStrategy<Sequential>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
