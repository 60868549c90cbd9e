// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/placement/filler.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// used / capacity, exactly.
struct LoadRatio {
    std::int64_t used = 0;
    std::int64_t capacity = 1;

    __extension__ using Wide = __int128;
    /// What scaled() counts in.
    static constexpr std::int64_t scale = std::int64_t{1} << 40U;

    [[nodiscard]] constexpr double value() const {
        return static_cast<double>(used) / static_cast<double>(capacity);
    }
    /// The largest number of bytes on a device of `capacity_of_device` that stays at or (strictly) below this load.
    [[nodiscard]] constexpr Bytes limit(Bytes capacity_of_device, bool is_strict) const {
        auto const product = static_cast<Wide>(used) * capacity_of_device.count();
        auto const whole = static_cast<std::int64_t>(product / capacity);
        bool const is_exact = product % capacity == 0;
        return Bytes{is_strict && is_exact ? whole - 1 : whole};
    }
    /// The load in whole parts of 1 / scale, rounded down.
    [[nodiscard]] constexpr std::int64_t scaled() const {
        return static_cast<std::int64_t>(static_cast<Wide>(used) * scale / capacity);
    }
    friend constexpr bool operator<(LoadRatio const& a, LoadRatio const& b) {
        return static_cast<Wide>(a.used) * b.capacity < static_cast<Wide>(b.used) * a.capacity;
    }
};

/// What each device of a filling of units from `begin` on needs; 0 for a device whose run is empty.
[[nodiscard]] constexpr List<Bytes> used_by(Filling const& filling, List<PlacementUnit> const& units, std::size_t begin,
                                            Budgets const& budgets) {
    List<Bytes> used;
    auto unit = begin;
    for (std::size_t device = 0; device < filling.end_of.size(); ++device) {
        DeviceFill fill(budgets[device]);
        for (; unit < filling.end_of[device]; ++unit) fill.add(units[unit]);
        used.push_back(fill.used());
    }
    return used;
}

/// A filling and its largest load.
struct OptimalLoad {
    Filling filling;
    LoadRatio load;
};

/// The contiguous filling of units [begin, end) whose largest load is least; nothing where they do not fit. Whether a load suffices
/// is decided by filling greedily up to it. Where it does not, no load below the next one at which the filling would go otherwise
/// does: both ends of the search are loads of runs, and the answer is exact.
///
/// Order  O(units * 40)
[[nodiscard]] constexpr Optional<OptimalLoad> minimise_load(List<PlacementUnit> const& units, std::size_t begin, std::size_t end,
                                                            Budgets const& budgets) {
    auto const attempt = [&](LoadRatio load) {
        List<Bytes> limits;
        for (auto const& budget : budgets) limits.push_back(load.limit(budget.capacity, false));
        return fill_in_order(units, begin, end, budgets, limits);
    };
    OptimalLoad best{attempt({1, 1}), {0, 1}};
    if (best.filling.placed < end - begin) return std::nullopt;
    auto const largest_load = [&](Filling const& filling) {
        LoadRatio largest{0, 1};
        auto const used = used_by(filling, units, begin, budgets);
        for (std::size_t device = 0; device < used.size(); ++device) {
            LoadRatio const load{used[device].count(), budgets[device].capacity.count()};
            if (used[device] > Bytes{} && largest < load) largest = load;
        }
        return largest;
    };
    // The least load with which some device would take one more unit than in a filling that stopped short.
    auto const next_load = [&](Filling const& filling) {
        LoadRatio least{INT64_MAX, 1};
        auto unit = begin;
        for (std::size_t device = 0; device < budgets.size(); ++device) {
            DeviceFill fill(budgets[device]);
            for (; unit < filling.end_of[device]; ++unit) fill.add(units[unit]);
            LoadRatio const load{fill.with(units[unit]).count(), budgets[device].capacity.count()};
            if (load.capacity > 0 && load < least) least = load;
        }
        return least;
    };
    best.load = largest_load(best.filling);
    // No largest load is below the mean.
    LoadRatio low{0, 0};
    for (auto i = begin; i < end; ++i) low.used += units[i].resident().count();
    for (auto const& budget : budgets) low.capacity += budget.capacity.count();
    while (low < best.load) {
        LoadRatio middle{(low.scaled() + best.load.scaled()) / 2, LoadRatio::scale};
        // Closer than the scale can tell: the next load itself.
        if (!(low < middle)) middle = low;
        auto filling = attempt(middle);
        if (filling.placed < end - begin) {
            low = next_load(filling);
        } else {
            best = {std::move(filling), {}};
            best.load = largest_load(best.filling);
        }
    }
    return best;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
