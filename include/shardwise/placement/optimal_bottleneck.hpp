// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/placement/filler.hpp>
#include <shardwise/placement/stage_time.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A filling and the seconds of its slowest stage, or of all stages and links.
struct OptimalTime {
    Filling filling;
    Picoseconds time = 0;
};

/// Fills devices in order up to their capacities and up to a time each; the time is that of the slowest.
[[nodiscard]] constexpr OptimalTime fill_within(List<PlacementUnit> const& units, std::size_t end,
                                                Budgets const& budgets, Picoseconds limit) {
    OptimalTime result;
    std::size_t next = 0;
    for (auto const& budget : budgets) {
        DeviceFill fill(budget);
        Picoseconds time = 0;
        while (next < end && fill.with(units[next]) <= budget.capacity) {
            auto const longer = time + time_of(units[next], budget);
            if (longer > limit) break;
            time = longer;
            fill.add(units[next++]);
        }
        result.filling.end_of.push_back(next);
        if (result.time < time) result.time = time;
    }
    result.filling.placed = next;
    return result;
}

/// The contiguous filling of all units within capacities whose slowest stage is fastest; exact in whole picoseconds.
///
/// Order  O(units * 50)
[[nodiscard]] constexpr Optional<OptimalTime> minimise_bottleneck(List<PlacementUnit> const& units,
                                                                       std::size_t end, Budgets const& budgets) {
    auto best = fill_within(units, end, budgets, INT64_MAX / 2);
    if (best.filling.placed < end) return std::nullopt;
    Picoseconds low = -1;
    while (best.time - low > 1) {
        auto const middle = low + (best.time - low) / 2;
        auto filled = fill_within(units, end, budgets, middle);
        if (filled.filling.placed < end) {
            low = middle;
        } else {
            best = std::move(filled);
        }
    }
    return best;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
