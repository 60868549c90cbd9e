// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/placement/budget.hpp>
#include <shardwise/placement/unit.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// For each end of a run of units within [first, end], counted from `first`, the earliest unit at which the run may begin so that
/// an accelerator needs no more than `limit` for it. Runs that begin later need no more; where no run does, the begin is its end.
///
/// Order  O(end - first)
[[nodiscard]] constexpr List<std::size_t> earliest_begins(List<PlacementUnit> const& units, std::size_t first, std::size_t end,
                                                          Budget const& budget, Bytes limit) {
    List<std::size_t> earliest;
    earliest.reserve(end - first + 1);
    earliest.push_back(first);
    // The units of the window in order of falling workspace: the front is the window's largest.
    List<std::size_t> falling;
    std::size_t front = 0;
    auto begin = first;
    Bytes resident{};
    for (auto i = first; i < end; ++i) {
        resident += units[i].resident();
        while (falling.size() > front && units[falling.back()].workspace <= units[i].workspace) falling.pop_back();
        falling.push_back(i);
        while (begin <= i) {
            auto const overhead = resident > Bytes{} ? budget.overhead : Bytes{};
            if (resident + units[falling[front]].workspace + overhead <= limit) break;
            resident -= units[begin].resident();
            if (falling[front] == begin) ++front;
            ++begin;
        }
        earliest.push_back(begin);
    }
    return earliest;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
