#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/placement/filler.hpp>
#include <shardwise/placement/stage_time.hpp>

#include <cstdint>
#include <optional>

namespace shardwise::inline v0::detail {

/// A filling and the seconds of its slowest stage, or of all stages and links.
struct OptimalTime {
    Filling filling;
    Picoseconds time = 0;
};

/// Fills devices in order up to their capacities and up to a time each.
[[nodiscard]] constexpr Filling fill_within(List<PlacementUnit> const& units, std::size_t end,
                                            Budgets const& budgets, Picoseconds limit) {
    Filling filling;
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
        filling.end_of.push_back(next);
    }
    filling.placed = next;
    return filling;
}

/// The contiguous filling of all units within capacities whose slowest stage is fastest; exact in whole picoseconds.
///
/// Order  O(units * 50)
[[nodiscard]] constexpr std::optional<OptimalTime> minimise_bottleneck(List<PlacementUnit> const& units,
                                                                       std::size_t end, Budgets const& budgets) {
    Picoseconds high = static_cast<Picoseconds>(longest_picoseconds);
    for (std::size_t i = 0; i < end; ++i) high += static_cast<Picoseconds>(longest_picoseconds) / 64;
    auto best = fill_within(units, end, budgets, high);
    if (best.placed < end) return std::nullopt;
    Picoseconds low = -1;
    while (high - low > 1) {
        auto const middle = low + (high - low) / 2;
        auto filling = fill_within(units, end, budgets, middle);
        if (filling.placed < end) {
            low = middle;
        } else {
            high = middle;
            best = std::move(filling);
        }
    }
    return OptimalTime{std::move(best), high};
}

}  // namespace shardwise::inline v0::detail
