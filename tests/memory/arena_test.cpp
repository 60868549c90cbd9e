// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/arena.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

using namespace shardwise;

namespace {

bool lives_with(ArenaItem const& a, ArenaItem const& b) { return a.birth <= b.death && b.birth <= a.death; }

/// Whether a layout is one: aligned, within the peak, and nothing overlaps while both live.
bool is_valid(List<ArenaItem> const& items, ArenaLayout const& layout) {
    if (layout.offsets.size() != items.size()) return false;
    for (std::size_t i = 0; i < items.size(); ++i) {
        auto const begin = layout.offsets[i].count();
        auto const end = begin + items[i].size.count();
        if (begin < 0 || end > layout.peak.count()) return false;
        if (begin % items[i].alignment != 0) return false;
        for (std::size_t k = 0; k < i; ++k) {
            if (!lives_with(items[i], items[k]) || items[i].size.count() == 0 || items[k].size.count() == 0) continue;
            auto const other = layout.offsets[k].count();
            if (begin < other + items[k].size.count() && other < end) return false;
        }
    }
    return true;
}

List<ArenaItem> random_items(std::mt19937& random, int count, std::int64_t largest, std::int64_t alignment) {
    std::uniform_int_distribution<std::int32_t> step(0, count);
    std::uniform_int_distribution<std::int64_t> size(0, largest);
    List<ArenaItem> items;
    for (int i = 0; i < count; ++i) {
        auto const a = step(random);
        auto const b = step(random);
        items.push_back({std::min(a, b), std::max(a, b), Bytes{size(random)}, alignment});
    }
    return items;
}

/// The smallest peak of all layouts: placing each item at its lowest free offset is optimal in some order.
Bytes smallest_peak(List<ArenaItem> const& items) {
    List<std::size_t> order(items.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    auto best = INT64_MAX;
    do {
        List<std::int64_t> offsets(items.size(), -1);
        std::int64_t peak = 0;
        for (auto const i : order) {
            std::int64_t at = 0;
            for (bool moved = true; moved;) {
                moved = false;
                for (std::size_t k = 0; k < items.size(); ++k) {
                    if (offsets[k] < 0 || !lives_with(items[i], items[k])) continue;
                    auto const end = offsets[k] + items[k].size.count();
                    if (at < end && offsets[k] < at + items[i].size.count()) at = end, moved = true;
                }
            }
            offsets[i] = at;
            peak = std::max(peak, at + items[i].size.count());
        }
        best = std::min(best, peak);
    } while (std::next_permutation(order.begin(), order.end()));
    return Bytes{best};
}

}  // namespace

TEST_CASE("arena: items that never meet share the same bytes") {
    List<ArenaItem> const items{{0, 1, 100_B, 1}, {2, 3, 80_B, 1}, {4, 4, 100_B, 1}};
    auto const layout = plan_arena(items);
    CHECK(layout.peak == 100_B);
    CHECK(layout.offsets == List<Bytes>{0_B, 0_B, 0_B});
}

TEST_CASE("arena: birth and death are inclusive, so a value and what is made of it do not overlap") {
    List<ArenaItem> const items{{0, 1, 64_B}, {1, 2, 64_B}};
    CHECK(plan_arena(items).peak == 128_B);
}

TEST_CASE("arena: a gap is used before the arena grows, the tightest first") {
    // The short-lived items of 90 and 70 leave gaps between the long-lived ones; 65 goes into the smaller.
    List<ArenaItem> const items{
        {0, 9, 100_B, 1}, {0, 1, 90_B, 1}, {0, 9, 80_B, 1}, {0, 1, 70_B, 1}, {0, 9, 66_B, 1}, {5, 6, 65_B, 1}};
    auto const layout = plan_arena(items);
    REQUIRE(is_valid(items, layout));
    CHECK(layout.peak == arena_lower_bound(items));
    CHECK(layout.offsets[5] == layout.offsets[3]);
}

TEST_CASE("arena: offsets are aligned") {
    List<ArenaItem> const items{{0, 3, 10_B}, {0, 3, 10_B}, {0, 3, 10_B, 256}};
    auto const layout = plan_arena(items);
    CHECK(is_valid(items, layout));
    CHECK(layout.peak <= Bytes{256 + 64 + 10});
}

TEST_CASE("arena: nothing takes nothing") {
    CHECK(plan_arena({}).peak == 0_B);
    List<ArenaItem> const items{{0, 3, 0_B}, {0, 3, 0_B}};
    CHECK(plan_arena(items).peak == 0_B);
}

TEST_CASE("arena: no two items that live together overlap, and the peak is at least what lives at once") {
    std::mt19937 random(20261121);
    std::int64_t at_bound = 0;
    double excess = 0.0;
    for (int round = 0; round < 3000; ++round) {
        auto const alignment = round % 3 == 0 ? 64 : 1;
        auto const items = random_items(random, 2 + round % 40, 1 + round % 5000, alignment);
        auto const layout = plan_arena(items);
        auto const bound = arena_lower_bound(items);
        REQUIRE(is_valid(items, layout));
        REQUIRE(layout.peak >= bound);
        if (alignment == 1) {
            at_bound += layout.peak == bound ? 1 : 0;
            excess = std::max(excess, static_cast<double>(layout.peak.count()) /
                                          static_cast<double>(std::max<std::int64_t>(1, bound.count())));
        }
    }
    MESSAGE("at the lower bound: ", at_bound, " of 2000; worst ratio ", excess);
    CHECK(excess < 1.5);
}

TEST_CASE("arena: equal input gives equal output") {
    std::mt19937 random(7);
    auto const items = random_items(random, 30, 1000, 64);
    auto const first = plan_arena(items);
    auto const second = plan_arena(items);
    CHECK(first.offsets == second.offsets);
    CHECK(first.peak == second.peak);
}

TEST_CASE("arena: on tiny cases it is rarely above the smallest peak that any layout has") {
    std::mt19937 random(99);
    int equal = 0;
    constexpr int rounds = 400;
    for (int round = 0; round < rounds; ++round) {
        auto const items = random_items(random, 2 + round % 5, 9, 1);
        auto const best = smallest_peak(items);
        auto const peak = plan_arena(items).peak;
        REQUIRE(peak >= best);
        REQUIRE(best >= arena_lower_bound(items));
        equal += peak == best ? 1 : 0;
    }
    MESSAGE("optimal in ", equal, " of ", rounds);
    CHECK(equal >= rounds * 97 / 100);
}
