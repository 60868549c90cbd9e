#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shardwise::inline v0 {

/// Something that an arena holds for a while: from step `birth` to step `death`, both included.
struct ArenaItem {
    std::int32_t birth = 0;
    std::int32_t death = 0;
    Bytes size{};
    std::int64_t alignment = 64;
};

/// Where each item of an arena lies, in the order in which they were given, and how large the arena is.
struct ArenaLayout {
    std::vector<Bytes> offsets;
    Bytes peak{};
};

/// The least that any layout needs: the largest sum of sizes alive in one step.
[[nodiscard]] constexpr Bytes arena_lower_bound(std::span<ArenaItem const> items) {
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
[[nodiscard]] constexpr ArenaLayout place_in_order(std::span<ArenaItem const> items, std::span<std::size_t const> order) {
    ArenaLayout layout;
    layout.offsets.resize(items.size());
    // Placed items by offset, so that gaps appear in one pass.
    std::vector<std::size_t> placed;
    placed.reserve(items.size());
    for (auto const current : order) {
        auto const& item = items[current];
        if (item.size.count() == 0) continue;
        std::int64_t top = 0;
        std::int64_t best = -1;
        std::int64_t best_gap = 0;
        for (auto const other : placed) {
            if (items[other].death < item.birth || item.death < items[other].birth) continue;
            auto const begin = layout.offsets[other].count();
            auto const start = round_up(top, item.alignment);
            auto const gap = begin - start;
            if (gap >= item.size.count() && (best < 0 || gap < best_gap)) {
                best = start;
                best_gap = gap;
            }
            auto const end = begin + items[other].size.count();
            if (top < end) top = end;
        }
        auto const offset = best >= 0 ? best : round_up(top, item.alignment);
        layout.offsets[current] = Bytes{offset};
        auto const end = Bytes{offset} + item.size;
        if (layout.peak < end) layout.peak = end;
        auto slot = placed.size();
        placed.push_back(current);
        while (slot > 0 && layout.offsets[placed[slot - 1]].count() > offset) {
            placed[slot] = placed[slot - 1];
            --slot;
        }
        placed[slot] = current;
    }
    return layout;
}

}  // namespace detail

/// Lays items out so that no two that live together overlap: the better of placing the largest first and the earliest first,
/// each at the tightest gap. The executor allocates with this very function, so that predicted bytes are allocated bytes.
///
/// Order   equal input gives equal output on every machine
/// Source  greedy by size: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020
[[nodiscard]] constexpr ArenaLayout plan_arena(std::span<ArenaItem const> items) {
    std::vector<std::size_t> order;
    order.reserve(items.size());
    // Insertion sort: a block has some twenty values, and it keeps <algorithm> out.
    for (std::size_t i = 0; i < items.size(); ++i) {
        auto slot = order.size();
        order.push_back(i);
        while (slot > 0 && items[order[slot - 1]].size < items[i].size) {
            order[slot] = order[slot - 1];
            --slot;
        }
        order[slot] = i;
    }
    auto layout = detail::place_in_order(items, order);
    auto const bound = arena_lower_bound(items);
    if (layout.peak == bound) return layout;
    order.clear();
    for (std::size_t i = 0; i < items.size(); ++i) {
        auto slot = order.size();
        order.push_back(i);
        while (slot > 0 && items[i].birth < items[order[slot - 1]].birth) {
            order[slot] = order[slot - 1];
            --slot;
        }
        order[slot] = i;
    }
    auto by_birth = detail::place_in_order(items, order);
    return by_birth.peak < layout.peak ? by_birth : layout;
}

}  // namespace shardwise::inline v0
