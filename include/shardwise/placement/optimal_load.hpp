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
    friend constexpr bool operator<(LoadRatio const& a, LoadRatio const& b) {
        return static_cast<Wide>(a.used) * b.capacity < static_cast<Wide>(b.used) * a.capacity;
    }
};

/// The contiguous filling of all units whose largest load is least. Whether a load suffices is decided by filling greedily
/// up to it; the answer is exact: no filling stays strictly below the load that is returned.
///
/// Order  O(units * 60)
struct OptimalLoad {
    Filling filling;
    LoadRatio load;
};

[[nodiscard]] constexpr Optional<OptimalLoad> minimise_load(List<PlacementUnit> const& units, std::size_t end,
                                                                 Budgets const& accelerators) {
    auto const attempt = [&](LoadRatio load, bool is_strict) {
        List<Bytes> limits;
        for (auto const& budget : accelerators) limits.push_back(load.limit(budget.capacity, is_strict));
        return fill_in_order(units, 0, end, accelerators, limits);
    };
    auto const largest_load = [&](Filling const& filling) {
        LoadRatio largest{0, 1};
        std::size_t unit = 0;
        for (std::size_t device = 0; device < accelerators.size(); ++device) {
            DeviceFill fill(accelerators[device]);
            for (; unit < filling.end_of[device]; ++unit) fill.add(units[unit]);
            if (fill.used() == Bytes{}) continue;
            LoadRatio const load{fill.used().count(), accelerators[device].capacity.count()};
            if (largest < load) largest = load;
        }
        return largest;
    };
    auto best = attempt({1, 1}, false);
    if (best.placed < end) return std::nullopt;
    auto load = largest_load(best);
    // Bisect to within 2^-40, then step down from one achieved load to the next until none is lower.
    constexpr std::int64_t scale = std::int64_t{1} << 40U;
    std::int64_t low = -1;
    std::int64_t high = scale;
    while (high - low > 1) {
        auto const middle = low + (high - low) / 2;
        auto filling = attempt({middle, scale}, false);
        if (filling.placed < end) {
            low = middle;
            continue;
        }
        high = middle;
        auto const reached = largest_load(filling);
        if (reached < load || !(load < reached)) {
            load = reached;
            best = std::move(filling);
        }
    }
    while (load.used > 0) {
        auto filling = attempt(load, true);
        if (filling.placed < end) break;
        load = largest_load(filling);
        best = std::move(filling);
    }
    return OptimalLoad{std::move(best), load};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
