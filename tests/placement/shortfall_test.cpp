// SPDX-License-Identifier: Apache-2.0
#include <shardwise/placement/shortfall.hpp>

#include <doctest/doctest.h>

#include <random>

namespace {

using namespace shardwise;

TEST_CASE("find_shortfall: the missing bytes suffice on the named device, and one byte less suffices on none") {
    std::mt19937 generator(7);
    auto const below = [&generator](std::uint32_t limit) { return static_cast<std::int64_t>(generator() % limit); };
    int infeasible = 0;
    for (int i = 0; i < 3000; ++i) {
        CAPTURE(i);
        ModuleSequence modules;
        for (auto k = below(8); k >= 0; --k) {
            PlacementUnit unit;
            unit.weights = Bytes{1 + below(20)};
            unit.workspace = Bytes{below(8)};
            modules.units.push_back(unit);
        }
        Budgets budgets;
        auto const devices = 1 + below(4);
        for (std::int64_t d = 0; d < devices; ++d) {
            Budget budget;
            budget.id = DeviceId::gpu(static_cast<std::int32_t>(d));
            budget.capacity = Bytes{below(40)};
            budget.overhead = Bytes{below(3)};
            budgets.push_back(budget);
        }
        auto const shortfall = find_shortfall(modules, budgets);
        REQUIRE(shortfall.has_value() == !fits_in_order(modules, budgets));
        if (!shortfall) continue;
        ++infeasible;
        for (auto& budget : budgets) {
            auto const original = budget.capacity;
            budget.capacity = original + shortfall->missing - 1_B;
            REQUIRE(!fits_in_order(modules, budgets));
            budget.capacity = original + shortfall->missing;
            if (budget.id == shortfall->device) REQUIRE(fits_in_order(modules, budgets));
            budget.capacity = original;
        }
    }
    CHECK(infeasible > 500);
}

TEST_CASE("find_shortfall: a disk with a limit can be too small, too") {
    ModuleSequence modules;
    PlacementUnit unit;
    unit.weights = 100_B;
    modules.units.push_back(unit);
    Budgets budgets;
    budgets.push_back({DeviceId::disk(), 40_B, {}, 0.0, 0.0, 0.0, 0.0});
    auto const shortfall = find_shortfall(modules, budgets);
    REQUIRE(shortfall.has_value());
    CHECK(shortfall->device == DeviceId::disk());
    CHECK(shortfall->missing == 60_B);
}

}  // namespace
