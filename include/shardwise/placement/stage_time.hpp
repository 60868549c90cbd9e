// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/cost/roofline.hpp>
#include <shardwise/placement/placement.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Times are whole picoseconds, so that sums and comparisons are exact; 2^63 ps are 106 days.
using Picoseconds = std::int64_t;

/// Nothing that is planned takes longer than this; it bounds sums far below overflow.
inline constexpr double longest_picoseconds = 1e15;

[[nodiscard]] constexpr Picoseconds to_picoseconds(double seconds) {
    auto const picoseconds = seconds * 1e12;
    return static_cast<Picoseconds>(picoseconds < longest_picoseconds ? picoseconds + 0.5 : longest_picoseconds);
}

/// The slower of a unit's arithmetic and its memory traffic on a device: the roofline model.
[[nodiscard]] constexpr double estimated_seconds(PlacementUnit const& unit, Budget const& budget) {
    return roofline_seconds(unit.flops, unit.traffic, {budget.compute, budget.bandwidth});
}

/// The time of a unit on a device: the measured one where there is one, else the estimated one.
[[nodiscard]] constexpr Picoseconds time_of(PlacementUnit const& unit, Budget const& budget) {
    auto const kind = static_cast<std::size_t>(budget.measured_as);
    bool const is_measured = budget.measured_as >= 0 && kind < unit.measured.size();
    return to_picoseconds(is_measured ? unit.measured[kind] : estimated_seconds(unit, budget));
}

/// The time to hand a unit's output from one device to another, over the slower of their links.
[[nodiscard]] constexpr Picoseconds link_time(PlacementUnit const& last, Budget const& from, Budget const& to) {
    auto const latency = from.link_latency > to.link_latency ? from.link_latency : to.link_latency;
    auto bandwidth = from.link_bandwidth;
    if (bandwidth <= 0.0 || (to.link_bandwidth > 0.0 && to.link_bandwidth < bandwidth)) bandwidth = to.link_bandwidth;
    return to_picoseconds(latency + (bandwidth > 0.0 ? last.output / bandwidth : 0.0));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
