// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/input_pieces.hpp>
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

/// Which units of a dimension stay together: those of one block of a packed weight, of one leaf of a fixed sum. A sum over inputs has
/// it, and what makes those inputs follows.
struct UnitGrain {
    std::int64_t units = 1;
    /// Ranks share so many groups of units; 0: as many as there are.
    std::int64_t groups = 0;

    /// What a rank holds of `count` units.
    [[nodiscard]] constexpr UnitRange share(std::int64_t count, std::int64_t tp, std::int64_t rank) const {
        if (units == 1 && groups == 0) return split_units(count, tp, rank);
        return pieces(count, 1).inputs_of_rank(tp, rank);
    }
    /// How `count` units of `width` elements each are cut.
    [[nodiscard]] constexpr InputPieces pieces(std::int64_t count, std::int64_t width) const {
        auto const most = ceil_divide(count, units);
        return {count * width, units * width, groups > 0 && groups < most ? groups : most};
    }

    friend constexpr bool operator==(UnitGrain const&, UnitGrain const&) = default;
};

/// How tensor-parallel ranks share one dimension: of a parameter, or the columns of an activation. Nothing else says which
/// rank owns what; ranks share what it leaves uneven by split_units, units that stay together by their UnitGrain.
///
/// Parameters have it as their ShardRule (with the dimension, and stacked experts), values as Value::split.
struct UnitSplit {
    std::int64_t count = 0;
    std::int64_t heads = 0;
    // The narrow ones last: what derives from this has its own in their padding.
    ShardKind kind = ShardKind::replicated;
    /// Of packed_qkv: the heads lie in `count` groups of [heads / count query heads, a key head, a value head] (falcon).
    bool is_grouped = false;

    [[nodiscard]] static constexpr UnitSplit units(std::int64_t count) { return {count, 0, ShardKind::units}; }
    [[nodiscard]] static constexpr UnitSplit kv(std::int64_t kv_heads, std::int64_t heads) {
        return {kv_heads, heads, ShardKind::kv_heads};
    }
    [[nodiscard]] static constexpr UnitSplit qkv(std::int64_t heads, std::int64_t kv_heads) {
        return {kv_heads, heads, ShardKind::packed_qkv};
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
    [[nodiscard]] constexpr std::int64_t units_of(std::int64_t tp, std::int64_t rank, UnitGrain grain = {}) const {
        if (tp <= 1 || count <= 0) return all_units();
        switch (kind) {
            case ShardKind::replicated:
                return 1;
            case ShardKind::units:
                return grain.share(count, tp, rank).size();
            case ShardKind::kv_heads:
                return kv_heads_of(grain.share(heads, tp, rank)).size();
            case ShardKind::packed_qkv: {
                auto const queries = grain.share(heads, tp, rank);
                return queries.size() + 2 * kv_heads_of(queries).size();
            }
            case ShardKind::packed_parts:
                return heads * grain.share(count, tp, rank).size();
        }
        return 1;
    }
    /// What it holds of a dimension of `extent` elements; uneven where units do not divide.
    [[nodiscard]] constexpr std::int64_t extent(std::int64_t extent, std::int64_t tp, std::int64_t rank,
                                                UnitGrain grain = {}) const {
        return tp <= 1 || count <= 0 ? extent : extent / all_units() * units_of(tp, rank, grain);
    }
    /// Calls `call(range)` for the elements that it holds, queries before keys before values, parts in turn. With `owned` for
    /// those alone that no rank before it holds: each element is of one rank's.
    template <class Call>
    constexpr void for_each_range(std::int64_t extent, std::int64_t tp, std::int64_t rank, bool owned, Call&& call,
                                  UnitGrain grain = {}) const {
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
        switch (kind) {
            case ShardKind::replicated:
                return;  // is_shared says no
            case ShardKind::units:
                return emit(grain.share(count, tp, rank), 0);
            case ShardKind::packed_parts:
                for (std::int64_t part = 0; part < heads; ++part) emit(grain.share(count, tp, rank), part * count);
                return;
            case ShardKind::kv_heads:
            case ShardKind::packed_qkv:
                break;
        }
        auto const queries = grain.share(heads, tp, rank);
        auto own = kv_heads_of(queries);
        // The ranks before this one have the query heads before its own.
        if (owned && own.size() > 0 && queries.begin > 0) {
            auto const before = kv_heads_of({0, queries.begin}).end;
            if (own.begin < before) own.begin = before < own.end ? before : own.end;
        }
        if (kind == ShardKind::kv_heads) return emit(own, 0);
        emit_heads(queries, 0);
        emit_heads(own, heads);
        emit_heads(own, heads + count);
    }
    /// The key-value heads that some query heads read.
    [[nodiscard]] constexpr UnitRange kv_heads_of(UnitRange queries) const {
        if (queries.size() == 0) return {};
        auto const group = heads / count;
        return {queries.begin / group, (queries.end - 1) / group + 1};
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
