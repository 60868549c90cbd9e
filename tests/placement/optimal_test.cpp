// SPDX-License-Identifier: Apache-2.0
#include <shardwise/placement/balanced.hpp>
#include <shardwise/placement/optimal.hpp>
#include <shardwise/placement/sequential.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

namespace {

using namespace shardwise;

/// A small random problem: units of at least a byte (what a builder makes), unequal devices, sometimes cpu and disk.
struct Problem {
    ModuleSequence modules;
    Budgets budgets;
    Objective objective = Objective::load;
};

/// Weights are 1 to `sizes` bytes; few sizes make many ties.
Problem random_problem(std::mt19937& generator, std::uint32_t max_units, std::uint32_t sizes) {
    auto const below = [&generator](std::uint32_t limit) { return static_cast<std::int64_t>(generator() % limit); };
    auto const real_below = [&below](std::uint32_t limit) { return static_cast<double>(below(limit)); };
    Problem problem;
    auto const unit_count = 1 + below(max_units);
    auto const capacity = max_units * (sizes + 1) * 5 / 14;
    for (std::int64_t i = 0; i < unit_count; ++i) {
        PlacementUnit unit;
        unit.weights = Bytes{1 + below(sizes)};
        unit.state = Bytes{below(3) == 0 ? below(6) : 0};
        unit.workspace = Bytes{below(3) == 0 ? below(10) : 0};
        unit.flops = real_below(10);
        unit.traffic = real_below(10);
        unit.output = real_below(5);
        problem.modules.units.push_back(unit);
    }
    auto const device_count = 1 + below(4);
    for (std::int64_t i = 0; i < device_count; ++i) {
        Budget budget;
        budget.id = DeviceId::gpu(static_cast<std::int32_t>(i));
        budget.capacity = Bytes{below(capacity)};
        budget.overhead = Bytes{below(3)};
        budget.compute = 1.0 + real_below(3);
        budget.bandwidth = 1.0 + real_below(3);
        budget.link_bandwidth = 1.0 + real_below(2);
        budget.link_latency = real_below(3);
        problem.budgets.push_back(budget);
    }
    auto const others = below(3);
    if (others > 0) problem.budgets.push_back({DeviceId::cpu(), Bytes{below(capacity)}, {}, 0.5, 0.5, 1.0, 1.0});
    if (others > 1) problem.budgets.push_back({DeviceId::disk(), Bytes{1'000'000}, {}, 0.1, 0.1, 1.0, 1.0});
    problem.objective = static_cast<Objective>(below(3));
    return problem;
}

/// What is minimised, in its order. The last three are for load alone: of the accelerators after the spared ones the largest load,
/// how many are empty, and the smallest load of those in use, from 1 down.
struct Score {
    std::int64_t disk = 0;
    std::int64_t cpu = 0;
    double value = 0.0;
    std::int64_t spared = 0;
    double largest = 0.0;
    std::int64_t empty = 0;
    double unused = 0.0;

    [[nodiscard]] auto key() const { return std::tie(disk, cpu, value, spared, largest, empty, unused); }
    friend bool operator<(Score const& a, Score const& b) { return a.key() < b.key(); }
    friend bool operator==(Score const& a, Score const& b) { return a.key() == b.key(); }
};

bool is_within_capacities(Problem const& problem, Placement const& placement) {
    auto const used = used_bytes(problem.modules, problem.budgets, placement);
    for (std::size_t i = 0; i < used.size(); ++i) {
        if (used[i] > problem.budgets[i].capacity) return false;
    }
    return true;
}

/// The score for a strategy; those of load count the accelerators' load, BalancedLow0 spares the first one.
Score score_of(Problem const& problem, Placement const& placement, std::size_t spared) {
    Score score;
    for (std::size_t i = 0; i < problem.modules.units.size(); ++i) {
        auto const device = static_cast<std::size_t>(placement.device_of[i]);
        auto const bytes = problem.modules.units[i].resident().count();
        if (problem.budgets[device].id.kind == DeviceClass::disk) score.disk += bytes;
        if (problem.budgets[device].id.kind == DeviceClass::cpu) score.cpu += bytes;
        if (device < spared) score.spared += bytes;
    }
    if (problem.objective != Objective::load) {
        score.value = Optimal::objective_value(problem.objective, problem.modules, problem.budgets, placement);
        return score;
    }
    auto const used = used_bytes(problem.modules, problem.budgets, placement);
    double smallest = 1.0;
    for (std::size_t i = spared; i < count_accelerators(problem.budgets); ++i) {
        if (used[i] == Bytes{}) {
            ++score.empty;
            continue;
        }
        double const load = static_cast<double>(used[i].count()) / static_cast<double>(problem.budgets[i].capacity.count());
        score.largest = std::max(score.largest, load);
        smallest = std::min(smallest, load);
    }
    score.unused = 1.0 - smallest;
    return score;
}

/// Calls `visit` with every contiguous placement that is within the capacities.
template <class Visit>
void try_all(Problem const& problem, Placement& placement, std::size_t unit, std::int32_t device, Visit const& visit) {
    if (unit == problem.modules.units.size()) {
        if (is_within_capacities(problem, placement)) visit(placement);
        return;
    }
    for (auto next = device; next < static_cast<std::int32_t>(problem.budgets.size()); ++next) {
        placement.device_of[unit] = next;
        try_all(problem, placement, unit + 1, next, visit);
    }
}

/// The best scores over every contiguous placement, by trying them all: for Optimal and Balanced, and for BalancedLow0.
struct Best {
    std::optional<Score> score;
    std::optional<Score> low_0;
};

Best best_of_all(Problem const& problem, std::size_t spared) {
    Best best;
    Placement trial;
    trial.device_of.resize(problem.modules.units.size());
    try_all(problem, trial, 0, 0, [&](Placement const& placement) {
        auto const score = score_of(problem, placement, 0);
        if (!best.score || score < *best.score) best.score = score;
        auto const low_0 = score_of(problem, placement, spared);
        if (!best.low_0 || low_0 < *best.low_0) best.low_0 = low_0;
    });
    return best;
}

void compare_with_brute_force(std::uint32_t seed, int cases, std::uint32_t max_units = 8, std::uint32_t sizes = 20) {
    std::mt19937 generator(seed);
    int feasible = 0;
    for (int i = 0; i < cases; ++i) {
        auto problem = random_problem(generator, max_units, sizes);
        CAPTURE(seed);
        CAPTURE(i);
        std::size_t usable = 0;
        for (auto const& budget : problem.budgets) usable += budget.is_accelerator() && budget.capacity > Bytes{} ? 1U : 0U;
        std::size_t const spared = usable < 2 ? 0 : 1;
        auto const best = best_of_all(problem, spared);
        auto const found = Optimal{.objective = problem.objective}(problem.modules, problem.budgets);
        REQUIRE(found.has_value() == best.score.has_value());
        // Sequential finds a place exactly when there is one.
        REQUIRE(Sequential{}(problem.modules, problem.budgets).has_value() == best.score.has_value());
        if (!best.score) continue;
        ++feasible;
        REQUIRE(is_within_capacities(problem, *found));
        auto const score = score_of(problem, *found, 0);
        REQUIRE(score == *best.score);
        auto const value = Optimal::objective_value(problem.objective, problem.modules, problem.budgets, *found);
        REQUIRE(found->certificate->value == value);
        REQUIRE(found->certificate->lower_bound == value);
        if (problem.objective != Objective::load) continue;
        auto const balanced = Balanced{}(problem.modules, problem.budgets);
        REQUIRE(balanced.has_value());
        REQUIRE(is_within_capacities(problem, *balanced));
        REQUIRE(score_of(problem, *balanced, 0) == *best.score);
        auto const low_0 = BalancedLow0{}(problem.modules, problem.budgets);
        REQUIRE(low_0.has_value());
        REQUIRE(is_within_capacities(problem, *low_0));
        REQUIRE(score_of(problem, *low_0, spared) == *best.low_0);
    }
    CHECK(feasible > cases / 2);
}

TEST_CASE("Optimal: equals brute force over all contiguous placements of small random problems") {
    compare_with_brute_force(1, 4000);
    compare_with_brute_force(3, 400, 20, 2);
    compare_with_brute_force(4, 200, 20, 1000);
}

TEST_CASE("Optimal: leaves a device empty when using it only costs a hop") {
    Problem problem;
    problem.objective = Objective::latency;
    for (int i = 0; i < 4; ++i) {
        PlacementUnit unit;
        unit.weights = 10_B;
        unit.traffic = 1.0;
        unit.output = 1.0;
        problem.modules.units.push_back(unit);
    }
    for (int i = 0; i < 2; ++i) problem.budgets.push_back({DeviceId::gpu(i), 100_B, {}, 1.0, 1.0, 1.0, 5.0});
    auto const placement = Optimal{.objective = Objective::latency}(problem.modules, problem.budgets);
    REQUIRE(placement.has_value());
    CHECK(placement->device_of == List<std::int32_t>{0, 0, 0, 0});
    CHECK(placement->certificate->value == doctest::Approx(4.0));
}

TEST_CASE("Optimal: an infeasible problem names the unit and the room that is left") {
    Problem problem;
    PlacementUnit unit;
    unit.path = "model.layers.7";
    unit.layer = LayerId{7};
    unit.weights = 100_B;
    problem.modules.units.push_back(unit);
    problem.budgets.push_back({DeviceId::gpu(0), 40_B, {}, 1.0, 1.0, 1.0, 1.0});
    auto const placement = Optimal{}(problem.modules, problem.budgets);
    REQUIRE(!placement.has_value());
    CHECK(placement.error().code() == ErrorCode::out_of_memory);
    CHECK(placement.error().message() ==
          "layer 7 needs 100 B but only 40 B are available; add a device, quantize, lower the context, or allow cpu");
}

TEST_SUITE("long") {
    TEST_CASE("Optimal: equals brute force on more than 100,000 small random problems") {
        compare_with_brute_force(2, 200'000);
    }
}

}  // namespace
