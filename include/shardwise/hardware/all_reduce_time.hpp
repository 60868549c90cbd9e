// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>

#include <cstdint>
#include <limits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a sum over ranks on devices that reach each other's memory was measured to take, by the way in which it is made.
///
/// Units  bytes of a rank's vector, seconds
struct AllReduceTime {
    std::int32_t ranks = 0;
    std::int64_t bytes = 0;
    /// Every rank reads all of the others.
    double one_shot = 0.0;
    /// Each rank sums its share, and gathers the others'.
    double two_shot = 0.0;
    /// On how many devices the ranks were.
    std::int32_t devices = 1;

    friend constexpr bool operator==(AllReduceTime const&, AllReduceTime const&) = default;
};

/// From how many bytes on two steps were never slower, of what was measured of so many ranks on so many devices: more than there are
/// where that never was. Nothing where it was not measured.
[[nodiscard]] constexpr Optional<std::int64_t> two_shot_from(List<AllReduceTime> const& times, std::int32_t ranks,
                                                             std::int32_t devices) {
    constexpr auto never = std::numeric_limits<std::int64_t>::max();
    bool is_known = false;
    // The largest size at which one step was faster.
    std::int64_t one_shot = 0;
    for (auto const& time : times) {
        if (time.ranks != ranks || time.devices != devices) continue;
        is_known = true;
        if (time.one_shot < time.two_shot && time.bytes > one_shot) one_shot = time.bytes;
    }
    if (!is_known) return {};
    auto from = never;
    for (auto const& time : times) {
        bool const is_of_these = time.ranks == ranks && time.devices == devices;
        if (is_of_these && time.bytes > one_shot && time.bytes < from) from = time.bytes;
    }
    return from;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
