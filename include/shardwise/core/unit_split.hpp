// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/split.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How tensor-parallel ranks share a dimension.
enum class ShardKind : std::uint8_t {
    replicated,    // every rank holds all of it
    units,         // `count` equal units: split_units
    kv_heads,      // `count` key-value heads that serve `heads` query heads: split_kv_heads
    packed_qkv,    // `heads` query heads, then `count` key heads and as many value heads
    packed_parts,  // `heads` equal parts in turn (gate, up), each sharded in `count` units
};

/// How tensor-parallel ranks share one dimension: of a parameter, or the columns of an activation. Nothing else says which
/// rank owns what; ranks share what it leaves uneven by split_units.
///
/// Parameters have it as their ShardRule (with the dimension, and stacked experts), values as Value::split. What executes in
/// blocks that cannot be parted (a quantised block, a leaf of a fixed sum) rounds to those: InputPieces.
struct UnitSplit {
    ShardKind kind = ShardKind::replicated;
    /// Of packed_qkv: the heads lie in `count` groups of [heads / count query heads, a key head, a value head] (falcon).
    bool is_grouped = false;
    std::int64_t count = 0;
    std::int64_t heads = 0;

    [[nodiscard]] static constexpr UnitSplit units(std::int64_t count) { return {ShardKind::units, false, count, 0}; }
    [[nodiscard]] static constexpr UnitSplit kv(std::int64_t kv_heads, std::int64_t heads) {
        return {ShardKind::kv_heads, false, kv_heads, heads};
    }
    [[nodiscard]] static constexpr UnitSplit qkv(std::int64_t heads, std::int64_t kv_heads) {
        return {ShardKind::packed_qkv, false, kv_heads, heads};
    }

    /// True where ranks hold different parts.
    [[nodiscard]] constexpr bool is_shared() const { return kind != ShardKind::replicated; }
    /// True where several ranks may hold one key-value head.
    [[nodiscard]] constexpr bool has_kv_heads() const {
        return kind == ShardKind::kv_heads || kind == ShardKind::packed_qkv;
    }
    /// The equal parts of the whole dimension.
    [[nodiscard]] constexpr std::int64_t all_units() const {
        switch (kind) {
            case ShardKind::replicated:
                return 1;
            case ShardKind::units:
            case ShardKind::kv_heads:
                return count;
            case ShardKind::packed_qkv:
                return heads + 2 * count;
            case ShardKind::packed_parts:
                return heads * count;
        }
        return 1;
    }
    /// How many of them rank `rank` of `tp` holds.
    [[nodiscard]] constexpr std::int64_t units_of(std::int64_t tp, std::int64_t rank) const {
        if (tp <= 1 || count <= 0) return all_units();
        switch (kind) {
            case ShardKind::replicated:
                return 1;
            case ShardKind::units:
                return split_units(count, tp, rank).size();
            case ShardKind::kv_heads:
                return split_kv_heads(heads, count, tp, rank).size();
            case ShardKind::packed_qkv:
                return split_units(heads, tp, rank).size() + 2 * split_kv_heads(heads, count, tp, rank).size();
            case ShardKind::packed_parts:
                return heads * split_units(count, tp, rank).size();
        }
        return 1;
    }
    /// What it holds of a dimension of `extent` elements; uneven where units do not divide.
    [[nodiscard]] constexpr std::int64_t extent(std::int64_t extent, std::int64_t tp, std::int64_t rank) const {
        return tp <= 1 || count <= 0 ? extent : extent / all_units() * units_of(tp, rank);
    }
    /// Calls `call(range)` for the elements that it holds, queries before keys before values, parts in turn. With `owned` for
    /// those alone that no rank before it holds: each element is of one rank's.
    template <class Call>
    constexpr void for_each_range(std::int64_t extent, std::int64_t tp, std::int64_t rank, bool owned,
                                  Call&& call) const {
        if (tp <= 1 || count <= 0 || !is_shared()) {
            if (!owned || rank == 0) call(UnitRange{0, extent});
            return;
        }
        auto const unit = extent / all_units();
        auto const emit = [&](UnitRange range, std::int64_t first) {
            call(UnitRange{(first + range.begin) * unit, (first + range.end) * unit});
        };
        auto const emit_heads = [&](UnitRange range, std::int64_t first) {
            if (!is_grouped) return emit(range, first);
            for (auto head = first + range.begin; head < first + range.end; ++head) {
                auto const at = grouped_head(head);
                emit({at, at + 1}, 0);
            }
        };
        if (kind == ShardKind::units) return emit(split_units(count, tp, rank), 0);
        if (kind == ShardKind::packed_parts) {
            for (std::int64_t part = 0; part < heads; ++part) emit(split_units(count, tp, rank), part * count);
            return;
        }
        auto own = split_kv_heads(heads, count, tp, rank);
        if (owned && rank > 0) {
            auto const before = split_kv_heads(heads, count, tp, rank - 1).end;
            if (own.begin < before) own.begin = before < own.end ? before : own.end;
        }
        if (kind == ShardKind::kv_heads) return emit(own, 0);
        emit_heads(split_units(heads, tp, rank), 0);
        emit_heads(own, heads);
        emit_heads(own, heads + count);
    }
    /// Where a head lies that is counted among all queries, then keys, then values, in groups.
    [[nodiscard]] constexpr std::int64_t grouped_head(std::int64_t head) const {
        auto const group = heads / count;
        if (head < heads) return head / group * (group + 2) + head % group;
        if (head < heads + count) return (head - heads) * (group + 2) + group;
        return (head - heads - count) * (group + 2) + group + 1;
    }

    friend constexpr bool operator==(UnitSplit const&, UnitSplit const&) = default;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
