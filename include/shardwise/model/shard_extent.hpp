// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/split.hpp>
#include <shardwise/model/shard_rule.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What rank `rank` of `tp` holds of the dimension that a rule splits, of `extent` elements; uneven where units do not divide.
[[nodiscard]] constexpr std::int64_t shard_extent(ShardRule const& rule, std::int64_t extent, std::int64_t tp,
                                                  std::int64_t rank) {
    if (tp <= 1 || rule.count <= 0) return extent;
    switch (rule.kind) {
        case ShardKind::replicated: return extent;
        case ShardKind::units:
        case ShardKind::packed_parts: return extent / rule.count * split_units(rule.count, tp, rank).size();
        case ShardKind::kv_heads: return extent / rule.count * split_kv_heads(rule.heads, rule.count, tp, rank).size();
        case ShardKind::packed_qkv:
            return extent / (rule.heads + 2 * rule.count) *
                   (split_units(rule.heads, tp, rank).size() + 2 * split_kv_heads(rule.heads, rule.count, tp, rank).size());
    }
    return extent;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
