// SPDX-License-Identifier: Apache-2.0
#include <shardwise/placement/optimal.hpp>
#include <shardwise/placement/sequential.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace {

using namespace shardwise;

/// A small random problem: units of at least a byte (what a builder makes), unequal devices, sometimes cpu and disk.
struct Problem {
    ModuleSequence modules;
    Budgets budgets;
    Objective objective = Objective::load;
};

Problem random_problem(std::mt19937& generator) {
    auto const below = [&generator](std::uint32_t limit) { return static_cast<std::int64_t>(generator() % limit); };
    auto const real_below = [&below](std::uint32_t limit) { return static_cast<double>(below(limit)); };
    Problem problem;
    auto const unit_count = 1 + below(8);
    for (std::int64_t i = 0; i < unit_count; ++i) {
        PlacementUnit unit;
        unit.weights = Bytes{1 + below(20)};
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
        budget.capacity = Bytes{below(60)};
        budget.overhead = Bytes{below(3)};
        budget.compute = 1.0 + real_below(3);
        budget.bandwidth = 1.0 + real_below(3);
        budget.link_bandwidth = 1.0 + real_below(2);
        budget.link_latency = real_below(3);
        problem.budgets.push_back(budget);
    }
    auto const others = below(3);
    if (others > 0) problem.budgets.push_back({DeviceId::cpu(), Bytes{below(60)}, {}, 0.5, 0.5, 1.0, 1.0});
    if (others > 1) problem.budgets.push_back({DeviceId::disk(), Bytes{1'000'000}, {}, 0.1, 0.1, 1.0, 1.0});
    problem.objective = static_cast<Objective>(below(3));
    return problem;
}

/// What is minimised, in its order.
struct Score {
    std::int64_t disk = 0;
    std::int64_t cpu = 0;
    double value = 0.0;

    friend bool operator<(Score const& a, Score const& b) {
        if (a.disk != b.disk) return a.disk < b.disk;
        if (a.cpu != b.cpu) return a.cpu < b.cpu;
        return a.value < b.value;
    }
};

bool is_within_capacities(Problem const& problem, Placement const& placement) {
    auto const used = used_bytes(problem.modules, problem.budgets, placement);
    for (std::size_t i = 0; i < used.size(); ++i) {
        if (used[i] > problem.budgets[i].capacity) return false;
    }
    return true;
}

Score score_of(Problem const& problem, Placement const& placement) {
    Score score;
    for (std::size_t i = 0; i < problem.modules.units.size(); ++i) {
        auto const kind = problem.budgets[static_cast<std::size_t>(placement.device_of[i])].id.kind;
        auto const bytes = problem.modules.units[i].resident().count();
        if (kind == DeviceClass::disk) score.disk += bytes;
        if (kind == DeviceClass::cpu) score.cpu += bytes;
    }
    score.value = Optimal::objective_value(problem.objective, problem.modules, problem.budgets, placement);
    return score;
}

/// The best score over every contiguous placement, by trying them all.
void try_all(Problem const& problem, Placement& placement, std::size_t unit, std::int32_t device, std::optional<Score>& best) {
    if (unit == problem.modules.units.size()) {
        if (!is_within_capacities(problem, placement)) return;
        auto const score = score_of(problem, placement);
        if (!best || score < *best) best = score;
        return;
    }
    for (auto next = device; next < static_cast<std::int32_t>(problem.budgets.size()); ++next) {
        placement.device_of[unit] = next;
        try_all(problem, placement, unit + 1, next, best);
    }
}

void compare_with_brute_force(std::uint32_t seed, int cases) {
    std::mt19937 generator(seed);
    int feasible = 0;
    for (int i = 0; i < cases; ++i) {
        auto const problem = random_problem(generator);
        CAPTURE(seed);
        CAPTURE(i);
        Placement trial;
        trial.device_of.resize(problem.modules.units.size());
        std::optional<Score> best;
        try_all(problem, trial, 0, 0, best);
        auto const found = Optimal{.objective = problem.objective}(problem.modules, problem.budgets);
        REQUIRE(found.has_value() == best.has_value());
        // Sequential finds a place exactly when there is one.
        REQUIRE(Sequential{}(problem.modules, problem.budgets).has_value() == best.has_value());
        if (!best) continue;
        ++feasible;
        REQUIRE(is_within_capacities(problem, *found));
        auto const score = score_of(problem, *found);
        REQUIRE(score.disk == best->disk);
        REQUIRE(score.cpu == best->cpu);
        REQUIRE(score.value == best->value);
        REQUIRE(found->certificate->value == best->value);
        REQUIRE(found->certificate->lower_bound == best->value);
    }
    CHECK(feasible > cases / 2);
}

TEST_CASE("Optimal: equals brute force over all contiguous placements of small random problems") {
    compare_with_brute_force(1, 4000);
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
