// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/placement/filler.hpp>
#include <shardwise/placement/sequential.hpp>
#include <shardwise/placement/strategy.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The mean share of `sharers` accelerators plus the largest unit, so that rounding to whole units always finds room.
[[nodiscard]] constexpr Bytes balanced_share(ModuleSequence const& modules, std::int64_t sharers, Bytes overhead) {
    Bytes total{};
    Bytes largest{};
    for (auto const& unit : modules.units) {
        total += unit.resident();
        auto const whole = unit.resident() + unit.workspace;
        if (whole > largest) largest = whole;
    }
    return Bytes{ceil_divide(total.count(), sharers)} + largest + overhead;
}

/// Sequential under lower limits for the accelerators but the last; under the full ones where those do not suffice.
[[nodiscard]] constexpr Result<Placement> place_under_limits(ModuleSequence const& modules, Budgets const& budgets,
                                                             List<Bytes> const& limits) {
    auto const count = modules.units.size();
    auto const accelerators = count_accelerators(budgets);
    auto const filling = fill_in_order(modules.units, 0, count, budgets, limits);
    auto const on_accelerators = accelerators == 0 ? 0 : filling.end_of[accelerators - 1];
    if (on_accelerators < count) return Sequential{}(modules, budgets);
    return to_placement(filling, count);
}

}  // namespace detail

/// Gives every accelerator about the same, in order; never spills to the cpu what `sequential` would keep on accelerators.
///
/// Errors  out_of_memory that names the unit for which no device has room
struct Balanced {
    std::string_view name = "balanced";

    constexpr Result<Placement> operator()(ModuleSequence const& modules, Budgets const& budgets) const {
        std::int64_t sharers = 0;
        for (auto const& budget : budgets) sharers += budget.is_accelerator() && budget.capacity > Bytes{} ? 1 : 0;
        if (sharers == 0) return Sequential{}(modules, budgets);
        auto limits = detail::capacities_of(budgets);
        // The smallest share that works lies between the mean and the mean plus one unit: bisect it.
        Bytes low{0};
        auto high = detail::balanced_share(modules, sharers, budgets.front().overhead);
        auto const at = [&](Bytes share) {
            auto capped = limits;
            for (std::size_t i = 0; i < capped.size(); ++i) {
                if (budgets[i].is_accelerator() && capped[i] > share) capped[i] = share;
            }
            return capped;
        };
        auto const count = modules.units.size();
        auto const accelerators = count_accelerators(budgets);
        for (int step = 0; step < 12 && high - low > Bytes{1 << 20}; ++step) {
            auto const middle = Bytes{low.count() + (high - low).count() / 2};
            auto const filling = detail::fill_in_order(modules.units, 0, count, budgets, at(middle));
            (filling.end_of[accelerators - 1] == count ? high : low) = middle;
        }
        return detail::place_under_limits(modules, budgets, at(high));
    }
};

/// Balanced over all accelerators but the first, which gets only what the others cannot hold (room for generation).
///
/// Errors  out_of_memory that names the unit for which no device has room
struct BalancedLow0 {
    std::string_view name = "balanced_low_0";

    constexpr Result<Placement> operator()(ModuleSequence const& modules, Budgets const& budgets) const {
        std::int64_t sharers = 0;
        for (auto const& budget : budgets) sharers += budget.is_accelerator() && budget.capacity > Bytes{} ? 1 : 0;
        if (sharers < 2) return Balanced{}(modules, budgets);
        auto limits = detail::capacities_of(budgets);
        auto const share = detail::balanced_share(modules, sharers - 1, budgets.front().overhead);
        std::size_t last = 0;
        for (std::size_t i = 1; i < limits.size(); ++i) {
            if (!budgets[i].is_accelerator()) continue;
            if (limits[i] > share) limits[i] = share;
            last = i;
        }
        limits[last] = budgets[last].capacity;
        // The least that device 0 must hold: bisect its limit under the others' shares.
        auto const count = modules.units.size();
        Bytes low{-1};
        auto high = limits[0];
        while (high - low > Bytes{1}) {
            auto const middle = Bytes{low.count() + (high - low).count() / 2};
            limits[0] = middle;
            auto const filling = detail::fill_in_order(modules.units, 0, count, budgets, limits);
            (filling.end_of[last] == count ? high : low) = middle;
        }
        limits[0] = high;
        return detail::place_under_limits(modules, budgets, limits);
    }
};

static_assert(PlacementStrategy<Balanced>);
static_assert(PlacementStrategy<BalancedLow0>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
