// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/placement/balanced.hpp>
#include <shardwise/placement/device_map.hpp>
#include <shardwise/placement/optimal.hpp>
#include <shardwise/placement/sequential.hpp>
#include <shardwise/placement/shortfall.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace {

using namespace shardwise;

ModuleSequence equal_units(int count, Bytes size) {
    ModuleSequence modules;
    for (int i = 0; i < count; ++i) {
        PlacementUnit unit;
        unit.weights = size;
        modules.units.push_back(unit);
    }
    return modules;
}

Budgets gpus(std::initializer_list<std::int64_t> capacities) {
    Budgets budgets;
    for (auto const capacity : capacities) {
        Budget budget;
        budget.id = DeviceId::gpu(static_cast<std::int32_t>(budgets.size()));
        budget.capacity = Bytes{capacity};
        budgets.push_back(budget);
    }
    return budgets;
}

TEST_CASE("Sequential: opens the next device when a unit no longer fits") {
    auto const placement = Sequential{}(equal_units(5, 10_B), gpus({25, 100}));
    REQUIRE(placement.has_value());
    CHECK(placement->device_of == List<std::int32_t>{0, 0, 1, 1, 1});
}

TEST_CASE("Sequential: skips a device that is too small for any unit") {
    auto const placement = Sequential{}(equal_units(2, 10_B), gpus({5, 100}));
    REQUIRE(placement.has_value());
    CHECK(placement->device_of == List<std::int32_t>{1, 1});
}

TEST_CASE("Balanced: gives equal layers evenly") {
    auto const placement = Balanced{}(equal_units(8, Bytes{1 << 24}), gpus({1 << 30, 1 << 30, 1 << 30, 1 << 30}));
    REQUIRE(placement.has_value());
    CHECK(placement->device_of == List<std::int32_t>{0, 0, 1, 1, 2, 2, 3, 3});
}

TEST_CASE("Balanced: leaves no device nearly empty that others could relieve at the same largest load") {
    // Filling in order up to three units would leave the last device empty.
    auto const placement = Balanced{}(equal_units(9, Bytes{1 << 24}), gpus({1 << 30, 1 << 30, 1 << 30, 1 << 30}));
    REQUIRE(placement.has_value());
    CHECK(placement->device_of == List<std::int32_t>{0, 0, 0, 1, 1, 2, 2, 3, 3});
    // Ten equal units on unequal devices: no load is above a fifth, and every device is in use.
    auto const unequal = Balanced{}(equal_units(10, 10_B), gpus({100, 200, 50, 150}));
    REQUIRE(unequal.has_value());
    CHECK(unequal->device_of == List<std::int32_t>{0, 0, 1, 1, 1, 1, 2, 3, 3, 3});
}

TEST_CASE("Optimal and Balanced: DeepSeek-V3 loads eight H200 to within one of its layers") {
    auto const model = describe(presets::deepseek_v3).value();
    auto const devices = repeat_device<8>("H200-141GB").value();
    auto const modules = build_sequence(model, {});
    auto const budgets = budgets_for(devices, model, {});
    Bytes layer{};
    for (auto const& unit : modules.units) layer = std::max(layer, unit.resident());
    for (auto const& placement : {Optimal{}(modules, budgets), Balanced{}(modules, budgets)}) {
        REQUIRE(placement.has_value());
        auto const used = used_bytes(modules, budgets, *placement);
        auto const smallest = *std::min_element(used.begin(), used.end());
        CHECK(*std::max_element(used.begin(), used.end()) - smallest < layer + 4_GiB);
        CHECK(4 * smallest > 2 * budgets[0].capacity);
    }
}

TEST_CASE("BalancedLow0: keeps the first device free when the others have room") {
    auto const placement = BalancedLow0{}(equal_units(6, Bytes{1 << 24}), gpus({1 << 30, 1 << 30, 1 << 30}));
    REQUIRE(placement.has_value());
    CHECK(placement->device_of.front() == 1);
}

TEST_CASE("Balanced and BalancedLow0: find a place whenever a contiguous one exists") {
    std::mt19937 generator(11);
    auto const below = [&generator](std::uint32_t limit) { return static_cast<std::int64_t>(generator() % limit); };
    int feasible = 0;
    for (int i = 0; i < 3000; ++i) {
        CAPTURE(i);
        ModuleSequence modules;
        for (auto k = below(9); k >= 0; --k) {
            PlacementUnit unit;
            unit.weights = Bytes{1 + below(20)};
            unit.workspace = Bytes{below(4)};
            modules.units.push_back(unit);
        }
        auto budgets = gpus({below(50), below(50), below(50)});
        if (below(2) == 0) budgets.push_back({DeviceId::cpu(), Bytes{below(60)}, {}, 1.0, 1.0, 1.0, 1.0});
        bool const exists = fits_in_order(modules, budgets);
        feasible += exists ? 1 : 0;
        for (auto const& placement : {Balanced{}(modules, budgets), BalancedLow0{}(modules, budgets)}) {
            REQUIRE(placement.has_value() == exists);
            if (!exists) continue;
            auto const used = used_bytes(modules, budgets, *placement);
            for (std::size_t d = 0; d < used.size(); ++d) REQUIRE(used[d] <= budgets[d].capacity);
        }
    }
    CHECK(feasible > 500);
}

}  // namespace
