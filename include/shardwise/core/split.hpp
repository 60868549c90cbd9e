// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A half-open range of units.
struct UnitRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;

    [[nodiscard]] constexpr std::int64_t size() const { return end - begin; }
    friend constexpr bool operator==(UnitRange const&, UnitRange const&) = default;
};

/// The units of `rank` when `units` are sharded over `ranks` in order, as evenly as possible, the larger shares first.
[[nodiscard]] constexpr UnitRange split_units(std::int64_t units, std::int64_t ranks, std::int64_t rank) {
    auto const share = units / ranks;
    auto const rest = units % ranks;
    auto const begin = rank * share + (rank < rest ? rank : rest);
    return {begin, begin + share + (rank < rest ? 1 : 0)};
}

/// The key-value heads that `rank` reads when its query heads are sharded by split_units: every head that one of its query
/// heads belongs to, so that heads are replicated where ranks exceed them or cut a group.
[[nodiscard]] constexpr UnitRange split_kv_heads(std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                                                 std::int64_t rank) {
    auto const query = split_units(heads, ranks, rank);
    if (query.size() == 0) return {};
    auto const group = heads / kv_heads;
    return {query.begin / group, (query.end - 1) / group + 1};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
