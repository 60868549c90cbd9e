// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How tensor- and expert-parallel ranks share a parameter.
enum class ShardKind : std::uint8_t {
    replicated,  // every rank holds all of it
    units,       // dimension `dim` is sharded in `count` equal units by split_units
    kv_heads,    // dimension `dim` holds `count` key-value heads that serve `heads` query heads: split_kv_heads
    packed_qkv,  // dimension `dim` holds `heads` query heads, then `count` key heads and as many value heads
    packed_parts,  // dimension `dim` holds `heads` equal parts in turn (gate, up), each sharded in `count` units
};

/// The shard rule of one parameter: along which dimension, in which indivisible units.
///
/// Expert parallelism shards whole experts: numbered runs of children with ModuleRole::expert, and the `experts` of dimension
/// 0 of a stacked tensor. Both go by split_units over the experts; what is left of one expert follows `kind` over tp ranks.
struct ShardRule {
    ShardKind kind = ShardKind::replicated;
    std::uint8_t dim = 0;
    /// Of packed_qkv: the heads come in `count` groups of [heads / count query heads, a key head, a value head] (falcon);
    /// a rank's sizes are the same, the rows are elsewhere.
    bool is_grouped = false;
    std::int64_t count = 0;
    std::int64_t heads = 0;
    /// Stacked experts: dimension 0 holds so many; 0 elsewhere.
    std::int64_t experts = 0;

    [[nodiscard]] static constexpr ShardRule units(int dim, std::int64_t count) {
        return {ShardKind::units, static_cast<std::uint8_t>(dim), false, count, 0};
    }
    [[nodiscard]] static constexpr ShardRule kv(int dim, std::int64_t kv_heads, std::int64_t heads) {
        return {ShardKind::kv_heads, static_cast<std::uint8_t>(dim), false, kv_heads, heads};
    }
    [[nodiscard]] static constexpr ShardRule qkv(int dim, std::int64_t heads, std::int64_t kv_heads) {
        return {ShardKind::packed_qkv, static_cast<std::uint8_t>(dim), false, kv_heads, heads};
    }
    [[nodiscard]] static constexpr ShardRule packed(int dim, std::int64_t parts, std::int64_t units_per_part) {
        return {ShardKind::packed_parts, static_cast<std::uint8_t>(dim), false, units_per_part, parts};
    }
    /// The same rule for each of the experts that dimension 0 stacks.
    [[nodiscard]] constexpr ShardRule stacked(std::int64_t expert_count) const {
        auto rule = *this;
        rule.experts = expert_count;
        return rule;
    }
    [[nodiscard]] static constexpr ShardRule grouped_qkv(int dim, std::int64_t heads, std::int64_t kv_heads) {
        return {ShardKind::packed_qkv, static_cast<std::uint8_t>(dim), true, kv_heads, heads};
    }

    friend constexpr bool operator==(ShardRule const&, ShardRule const&) = default;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
