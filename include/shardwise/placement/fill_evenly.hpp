// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/placement/earliest_begins.hpp>
#include <shardwise/placement/filler.hpp>
#include <shardwise/placement/optimal_load.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The contiguous fillings of units [begin, end) that give no device more than its limit, searched for what they give at least. At
/// least one exists.
class FloorSearch {
public:
    constexpr FloorSearch(List<PlacementUnit> const& units, std::size_t begin, std::size_t end, Budgets const& budgets,
                          List<Bytes> const& limits)
        : units_(units), budgets_(budgets), low_(fill_backward(units, begin, end, budgets, limits)), high_(low_.size() + 1, begin) {
        auto const forward = fill_in_order(units, begin, end, budgets, limits);
        for (std::size_t device = 0; device < low_.size(); ++device) high_[device + 1] = forward.end_of[device];
        low_.push_back(end);
        for (std::size_t device = 0; device < limits.size(); ++device)
            earliest_.push_back(earliest_begins(units, low_[device], high_[device + 1], budgets[device], limits[device]));
    }

    /// A filling and how many devices it uses; -1 where there is none.
    struct Found {
        Filling filling;
        std::int32_t in_use = -1;
    };
    /// A filling whose runs all have a load of at least `floor` (more than it where that is strict), on as many devices as such a
    /// filling can use.
    [[nodiscard]] constexpr Found find(LoadRatio floor, bool is_strict) const {
        auto const devices = budgets_.size();
        List<List<Run>> ends(devices);
        List<Run> before(high_[0] - low_[0] + 1, Run{0, 0});
        List<std::size_t> falling;
        for (std::size_t device = 0; device < devices; ++device) {
            auto const first = low_[device];
            auto const too_little = floor.limit(budgets_[device].capacity, !is_strict);
            // Runs that begin here or later are too small.
            auto const too_late = earliest_begins(units_, first, high_[device + 1], budgets_[device], too_little);
            auto const& from = device == 0 ? before : ends[device - 1];
            auto const in_use = [&](std::size_t unit) { return from[unit - first].in_use; };
            // The begins of the window in order of falling numbers of devices: the front is its best.
            falling.clear();
            std::size_t front = 0;
            auto entering = first;
            for (auto unit = low_[device + 1]; unit <= high_[device + 1]; ++unit) {
                Run run{-1, unit};
                if (unit <= high_[device]) run.in_use = in_use(unit);
                for (; entering < too_late[unit - first] && entering <= high_[device]; ++entering) {
                    if (in_use(entering) < 0) continue;
                    while (falling.size() > front && in_use(falling.back()) <= in_use(entering)) falling.pop_back();
                    falling.push_back(entering);
                }
                while (front < falling.size() && falling[front] < earliest_[device][unit - first]) ++front;
                if (front < falling.size() && in_use(falling[front]) >= run.in_use)
                    run = {in_use(falling[front]) + 1, falling[front]};
                ends[device].push_back(run);
            }
        }
        auto unit = low_[devices];
        Found found{{List<std::size_t>(devices), unit - low_[0]}, ends[devices - 1].back().in_use};
        for (auto device = devices; device-- > 0 && found.in_use >= 0;) {
            found.filling.end_of[device] = unit;
            unit = ends[device][unit - low_[device + 1]].begin;
        }
        return found;
    }

private:
    /// The best run that ends at a unit: how many devices are then in use, and where it begins; at its end where it is empty.
    struct Run {
        std::int32_t in_use = -1;
        std::size_t begin = 0;
    };

    List<PlacementUnit> const& units_;
    Budgets const& budgets_;
    /// Where the run of the device before may end: [low, high]; the first entry is where all begins.
    List<std::size_t> low_;
    List<std::size_t> high_;
    List<List<std::size_t>> earliest_;
};

/// Of the fillings of units [begin, end) that stay within `most` on every device, one that uses the most devices, and of those one
/// whose smallest load is largest. Such a filling exists.
///
/// Order  O((units + devices * units that may lie on either side of a cut) * 20)
[[nodiscard]] constexpr Filling raise_smallest_load(List<PlacementUnit> const& units, std::size_t begin, std::size_t end,
                                                    Budgets const& budgets, LoadRatio most) {
    List<Bytes> limits;
    for (auto const& budget : budgets) limits.push_back(most.limit(budget.capacity, false));
    FloorSearch const search(units, begin, end, budgets, limits);
    auto best = search.find({0, 1}, false);
    if (begin == end) return std::move(best.filling);
    auto const smallest_load = [&] {
        auto least = most;
        auto const used = used_by(best.filling, units, begin, budgets);
        for (std::size_t device = 0; device < used.size(); ++device) {
            LoadRatio const load{used[device].count(), budgets[device].capacity.count()};
            if (used[device] > Bytes{} && load < least) least = load;
        }
        return least;
    };
    auto load = smallest_load();
    auto high = most.scaled() + 1;
    // What strictly exceeds the best so far is its successor or the proof that there is none; halving keeps successors few.
    while (true) {
        for (auto const is_strict : {true, false}) {
            auto const middle = load.scaled() + (high - load.scaled()) / 2;
            LoadRatio const floor = is_strict ? load : LoadRatio{middle, LoadRatio::scale};
            if (!is_strict && !(load < floor)) continue;
            auto found = search.find(floor, is_strict);
            if (found.in_use == best.in_use) {
                best = std::move(found);
                load = smallest_load();
            } else if (is_strict) {
                return std::move(best.filling);
            } else {
                high = middle;
            }
        }
    }
}

/// All units, filled in order: this leaves the least for cpu and disk, whatever the cuts between accelerators.
///
/// Errors  out_of_memory that names the unit for which no device has room
[[nodiscard]] constexpr Result<Filling> fill_whole(ModuleSequence const& modules, Budgets const& budgets) {
    auto const count = modules.units.size();
    auto filling = fill_in_order(modules.units, 0, count, budgets, capacities_of(budgets));
    if (filling.placed < count) return does_not_fit(modules.units, budgets, filling);
    return filling;
}

/// The same with cuts between the accelerators where their largest load is least, then the most of them are in use, then their
/// smallest load is largest. This is about all but the first `spared`, which get only what the others cannot hold.
///
/// Errors  as fill_whole
[[nodiscard]] constexpr Result<Filling> fill_evenly(ModuleSequence const& modules, Budgets const& budgets,
                                                    std::size_t spared = 0) {
    auto filling = fill_whole(modules, budgets);
    auto const accelerators = count_accelerators(budgets);
    if (!filling || accelerators <= spared) return filling;
    auto const end = filling->end_of[accelerators - 1];
    Budgets const others(budgets.begin() + spared, budgets.begin() + accelerators);
    auto const begin = fill_backward(modules.units, 0, end, others, capacities_of(others)).front();
    auto const best = minimise_load(modules.units, begin, end, others);
    auto const even = raise_smallest_load(modules.units, begin, end, others, best->load);
    for (std::size_t i = 0; i < spared; ++i) {
        if (filling->end_of[i] > begin) filling->end_of[i] = begin;
    }
    for (std::size_t i = spared; i < accelerators; ++i) filling->end_of[i] = even.end_of[i - spared];
    return filling;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
