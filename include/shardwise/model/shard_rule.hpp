// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/unit_split.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How tensor- and expert-parallel ranks share a parameter: along which dimension, in which indivisible units.
///
/// Expert parallelism shards whole experts: numbered runs of children with ModuleRole::expert, and the `experts` of dimension
/// 0 of a stacked tensor. Both go by split_units over the experts; what is left of one expert follows `kind` over tp ranks.
struct ShardRule : UnitSplit {
    std::uint8_t dim = 0;
    /// Stacked experts: dimension 0 holds so many; 0 elsewhere.
    std::int64_t experts = 0;

    constexpr ShardRule() = default;
    constexpr ShardRule(int dimension, UnitSplit const& split)
        : UnitSplit(split), dim(static_cast<std::uint8_t>(dimension)) {}

    [[nodiscard]] static constexpr ShardRule units(int dim, std::int64_t count) {
        return {dim, UnitSplit::units(count)};
    }
    [[nodiscard]] static constexpr ShardRule kv(int dim, std::int64_t kv_heads, std::int64_t heads) {
        return {dim, UnitSplit::kv(kv_heads, heads)};
    }
    [[nodiscard]] static constexpr ShardRule qkv(int dim, std::int64_t heads, std::int64_t kv_heads) {
        return {dim, UnitSplit::qkv(heads, kv_heads)};
    }
    [[nodiscard]] static constexpr ShardRule grouped_qkv(int dim, std::int64_t heads, std::int64_t kv_heads) {
        return {dim, {kv_heads, heads, ShardKind::packed_qkv, true}};
    }
    [[nodiscard]] static constexpr ShardRule packed(int dim, std::int64_t parts, std::int64_t units_per_part) {
        return {dim, {units_per_part, parts, ShardKind::packed_parts}};
    }
    /// The same rule for each of the experts that dimension 0 stacks.
    [[nodiscard]] constexpr ShardRule stacked(std::int64_t expert_count) const {
        auto rule = *this;
        rule.experts = expert_count;
        return rule;
    }

    friend constexpr bool operator==(ShardRule const&, ShardRule const&) = default;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
