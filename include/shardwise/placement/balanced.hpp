// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/placement/fill_evenly.hpp>
#include <shardwise/placement/strategy.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Loads (used / capacity) the accelerators evenly, in order: the largest load is least, then the most of them are in use, then the
/// smallest load is largest; never spills to the cpu what `sequential` would keep on accelerators. This is what `Optimal` finds by
/// load, in constant expressions too and without a certificate.
///
/// Errors  out_of_memory that names the unit for which no device has room
struct Balanced {
    std::string_view name = "balanced";

    constexpr Result<Placement> operator()(ModuleSequence const& modules, Budgets const& budgets) const {
        auto const filling = detail::fill_evenly(modules, budgets);
        if (!filling) return filling.error();
        return detail::to_placement(*filling, modules.units.size());
    }
};

/// Balanced over all accelerators but the first, which gets only what the others cannot hold (memory for generation).
///
/// Errors  out_of_memory that names the unit for which no device has room
struct BalancedLow0 {
    std::string_view name = "balanced_low_0";

    constexpr Result<Placement> operator()(ModuleSequence const& modules, Budgets const& budgets) const {
        std::size_t usable = 0;
        for (auto const& budget : budgets) usable += budget.is_accelerator() && budget.capacity > Bytes{} ? 1U : 0U;
        auto const filling = detail::fill_evenly(modules, budgets, usable < 2 ? 0 : 1);
        if (!filling) return filling.error();
        return detail::to_placement(*filling, modules.units.size());
    }
};

static_assert(PlacementStrategy<Balanced>);
static_assert(PlacementStrategy<BalancedLow0>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
