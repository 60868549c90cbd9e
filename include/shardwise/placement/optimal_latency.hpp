// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/placement/earliest_begins.hpp>
#include <shardwise/placement/optimal_bottleneck.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The contiguous filling of all units within capacities with the least sum of stage and link times. h(d, j): the least time
/// of units [0, j) when device d is the last in use; for each (d, p) the best begin i of d's run lies in a sliding window,
/// kept as a monotone queue. `after`, where given, is the device that takes the units from `end` on: the hop to it counts.
///
/// Order  O(units * devices^2) time, O(units * devices) memory
[[nodiscard]] inline Optional<OptimalTime> minimise_latency(List<PlacementUnit> const& units, std::size_t end,
                                                                 Budgets const& budgets, Budget const* after) {
    constexpr Picoseconds never = INT64_MAX / 4;
    auto const devices = budgets.size();
    auto const columns = end + 1;
    List<Picoseconds> best(devices * columns, never);
    List<std::uint32_t> from_unit(devices * columns, 0);
    List<std::int16_t> from_device(devices * columns, -1);
    List<Picoseconds> before(columns, 0);
    List<std::size_t> queue;
    for (std::size_t d = 0; d < devices; ++d) {
        auto const earliest = earliest_begins(units, 0, end, budgets[d], budgets[d].capacity);
        for (std::size_t i = 0; i < end; ++i) before[i + 1] = before[i] + time_of(units[i], budgets[d]);
        auto const offer = [&](std::size_t j, Picoseconds time, std::size_t i, std::int16_t p) {
            auto const cell = d * columns + j;
            if (time >= best[cell]) return;
            best[cell] = time;
            from_unit[cell] = static_cast<std::uint32_t>(i);
            from_device[cell] = p;
        };
        for (std::size_t j = 1; j <= end && earliest[j] == 0; ++j) offer(j, before[j], 0, -1);
        for (std::size_t p = 0; p < d; ++p) {
            queue.clear();
            std::size_t front = 0;
            auto const cost = [&](std::size_t i) {
                return best[p * columns + i] + link_time(units[i - 1], budgets[p], budgets[d]) - before[i];
            };
            for (std::size_t j = 2; j <= end; ++j) {
                auto const entering = j - 1;
                if (best[p * columns + entering] < never) {
                    auto const entering_cost = cost(entering);
                    while (queue.size() > front && cost(queue.back()) > entering_cost) queue.pop_back();
                    queue.push_back(entering);
                }
                while (front < queue.size() && queue[front] < earliest[j]) ++front;
                if (front < queue.size()) offer(j, cost(queue[front]) + before[j], queue[front], static_cast<std::int16_t>(p));
            }
        }
    }
    std::size_t last = devices;
    auto shortest = never;
    for (std::size_t d = 0; d < devices && end > 0; ++d) {
        auto time = best[d * columns + end];
        if (time < never && after != nullptr) time += link_time(units[end - 1], budgets[d], *after);
        if (time < shortest) shortest = time, last = d;
    }
    if (end == 0) return OptimalTime{Filling{List<std::size_t>(devices, 0), 0}, 0};
    if (last == devices) return std::nullopt;
    OptimalTime result{Filling{List<std::size_t>(devices, end), end}, shortest};
    auto unit = end;
    auto device = static_cast<std::int64_t>(last);
    while (device >= 0) {
        auto const cell = static_cast<std::size_t>(device) * columns + unit;
        auto const previous = static_cast<std::int64_t>(from_device[cell]);
        unit = from_unit[cell];
        for (auto d = previous < 0 ? 0 : previous; d < device; ++d) result.filling.end_of[static_cast<std::size_t>(d)] = unit;
        device = previous;
    }
    return result;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
