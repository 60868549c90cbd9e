// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/device_id.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/placement/map_entry.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a dialect makes budgets from limits before it fills them; accelerate's "auto" is its "balanced".
enum class DialectStrategy : std::uint8_t { sequential, balanced, balanced_low_0 };

/// The strategy that a flag names.
[[nodiscard]] constexpr Optional<DialectStrategy> parse_dialect_strategy(std::string_view name) {
    if (name == "sequential") return DialectStrategy::sequential;
    if (name == "balanced" || name == "auto") return DialectStrategy::balanced;
    if (name == "balanced_low_0") return DialectStrategy::balanced_low_0;
    return std::nullopt;
}

/// What a device was given.
struct DialectDevice {
    DeviceId device{};
    /// What the greedy map was allowed to put there; nothing for disk, which has no limit.
    Optional<Bytes> budget;
    /// What it put there, in the dialect's own sizes, rounded up.
    Bytes used{};
};

/// A device map as a Python library makes it.
struct DialectMap {
    /// Order  as placed; a merged prefix stands where its first part was placed
    std::vector<MapEntry> entries;
    /// Order  as filled; disk is always the last
    std::vector<DialectDevice> devices;
    /// What the library would say, and what it should.
    std::vector<std::string> warnings;
    /// True where the library itself raises an exception on this input; the map is valid all the same.
    bool is_repaired = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
