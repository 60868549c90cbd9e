// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Something that an arena holds for a while: from step `birth` to step `death`, both included.
struct ArenaItem {
    std::int64_t birth = 0;
    std::int64_t death = 0;
    Bytes size{};
    std::int64_t alignment = 64;
};

/// Where each item of an arena lies, in the order in which they were given, and how large the arena is.
struct ArenaLayout {
    List<Bytes> offsets;
    Bytes peak{};
};

/// The least that any layout needs: the largest sum of sizes alive in one step.
[[nodiscard]] constexpr Bytes arena_lower_bound(Span<ArenaItem const> items) {
    Bytes bound{0};
    for (auto const& at : items) {
        Bytes alive{0};
        for (auto const& other : items) {
            if (other.birth <= at.birth && at.birth <= other.death) alive += other.size;
        }
        if (bound < alive) bound = alive;
    }
    return bound;
}

namespace detail {

/// Places items in the given order, each at the tightest gap between those alive with it, or above them all.
[[nodiscard]] constexpr ArenaLayout place_in_order(Span<ArenaItem const> items,
                                                   List<std::int64_t> const& order) {
    ArenaLayout layout;
    auto const item_at = [&](std::int64_t index) -> ArenaItem const& { return items[static_cast<std::size_t>(index)]; };
    auto const offset_of = [&](std::int64_t index) { return layout.offsets[static_cast<std::size_t>(index)].count(); };
    layout.offsets.resize(items.size());
    // Placed items by offset, so that gaps appear in one pass.
    List<std::int64_t> placed;
    placed.reserve(items.size());
    for (auto const current : order) {
        auto const& item = item_at(current);
        if (item.size.count() == 0) continue;
        std::int64_t top = 0;
        std::int64_t best = -1;
        std::int64_t best_gap = 0;
        for (auto const other : placed) {
            if (item_at(other).death < item.birth || item.death < item_at(other).birth) continue;
            auto const begin = offset_of(other);
            auto const start = round_up(top, item.alignment);
            auto const gap = begin - start;
            if (gap >= item.size.count() && (best < 0 || gap < best_gap)) {
                best = start;
                best_gap = gap;
            }
            auto const end = begin + item_at(other).size.count();
            if (top < end) top = end;
        }
        auto const offset = best >= 0 ? best : round_up(top, item.alignment);
        layout.offsets[static_cast<std::size_t>(current)] = Bytes{offset};
        auto const end = Bytes{offset} + item.size;
        if (layout.peak < end) layout.peak = end;
        auto slot = placed.size();
        placed.push_back(current);
        while (slot > 0 && offset_of(placed[slot - 1]) > offset) {
            placed[slot] = placed[slot - 1];
            --slot;
        }
        placed[slot] = current;
    }
    return layout;
}

/// The numbers of items in an order, equal ones as given. Insertion sort: a block has some twenty values, and it keeps
/// <algorithm> out.
template <class Before>
[[nodiscard]] constexpr List<std::int64_t> sorted(Span<ArenaItem const> items, Before before) {
    List<std::int64_t> order;
    order.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
        auto slot = order.size();
        order.push_back(static_cast<std::int64_t>(i));
        while (slot > 0 && before(items[i], items[static_cast<std::size_t>(order[slot - 1])])) {
            order[slot] = order[slot - 1];
            --slot;
        }
        order[slot] = static_cast<std::int64_t>(i);
    }
    return order;
}

/// Puts the item that ends at a layout's peak before all others.
constexpr void move_highest_first(Span<ArenaItem const> items, ArenaLayout const& layout, List<std::int64_t>& order) {
    auto const ends_highest = [&](std::int64_t item) {
        auto const i = static_cast<std::size_t>(item);
        return items[i].size.count() > 0 && layout.offsets[i] + items[i].size == layout.peak;
    };
    std::size_t slot = 0;
    while (slot + 1 < order.size() && !ends_highest(order[slot])) ++slot;
    auto const highest = order[slot];
    for (; slot > 0; --slot) order[slot] = order[slot - 1];
    order[0] = highest;
}

}  // namespace detail

/// Lays items out so that no two that live together overlap: the best of placing the largest first, the earliest first,
/// and, where both leave more than alignment unused, the largest first after what lay highest, a few times; each at the
/// tightest gap. The executor allocates with this very function, so that predicted bytes are allocated bytes.
///
/// Order   equal input gives equal output on every machine
/// Source  greedy by size: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020
[[nodiscard]] constexpr ArenaLayout plan_arena(Span<ArenaItem const> items) {
    auto order = detail::sorted(items, [](ArenaItem const& a, ArenaItem const& b) { return b.size < a.size; });
    auto layout = detail::place_in_order(items, order);
    auto const bound = arena_lower_bound(items);
    if (layout.peak == bound) return layout;
    auto const by_birth =
        detail::sorted(items, [](ArenaItem const& a, ArenaItem const& b) { return a.birth < b.birth; });
    auto best = detail::place_in_order(items, by_birth);
    if (!(best.peak < layout.peak)) best = layout;
    auto const close = bound + Bytes{64 * static_cast<std::int64_t>(items.size())};
    // One suffices for the blocks of published models, and four are tried.
    for (int i = 0; i < 4 && close < best.peak; ++i) {
        detail::move_highest_first(items, layout, order);
        layout = detail::place_in_order(items, order);
        if (layout.peak < best.peak) best = layout;
    }
    return best;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
