// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/spec.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/placement/device_map.hpp>
#include <shardwise/placement/measured_times.hpp>
#include <shardwise/placement/optimal.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace shardwise;

/// A tree of named leaves of `bytes` bytes each, below "m".
ModuleTree leaves(std::size_t count, std::int64_t bytes = 10) {
    ModuleTree tree;
    auto const leaf = tree.add("Leaf", {Tensor{.name = "weight", .shape = {bytes}, .dtype = Dtype::i8}});
    List<Child> children{numbered(0, static_cast<std::int64_t>(count), leaf, ModuleRole::layer)};
    auto const list = tree.add("List", children);
    List<Child> roots{{"m", list}};
    tree.set_root(tree.add("Root", roots));
    return tree;
}

Device device(std::string_view name, std::int32_t index, std::int64_t memory) {
    Device out;
    out.name = name;
    out.id = DeviceId::gpu(index);
    out.memory = Bytes{memory};
    out.link = {LinkType::pcie, 0.0, 0.25};
    return out;
}

ModuleTime decode(std::string module, double seconds) {
    return {.module = std::move(module), .decode = seconds};
}

/// A placement problem without any work: only measured times say how long something takes.
struct Problem {
    ModuleTree tree;
    List<Device> devices;
    ModuleSequence modules;
    Budgets budgets;

    Problem(ModuleTree given, List<Device> on)
        : tree(std::move(given)),
          devices(std::move(on)),
          modules(build_tree_sequence(tree, {}, {})),
          budgets(budgets_of(devices)) {}
    Result<MeasuredTimes> apply(Profile const& profile, std::int64_t batch = 1, std::int64_t context = 1) {
        return apply_profile(profile, tree, devices, batch, context, modules, budgets);
    }
    double seconds(std::size_t unit, std::size_t budget) const {
        return modules.units[unit].measured[static_cast<std::size_t>(budgets[budget].measured_as)];
    }
};

/// The least value over all contiguous placements within capacities, computed from the profile itself.
double least_by_trying(Problem const& problem, std::vector<std::vector<double>> const& seconds, Objective objective,
                       std::size_t unit, std::size_t device, std::vector<std::size_t>& placed) {
    auto const units = problem.modules.units.size();
    if (unit == units) {
        std::vector<double> stage(problem.budgets.size(), 0.0);
        std::vector<std::int64_t> bytes(problem.budgets.size(), 0);
        double hops = 0.0;
        for (std::size_t i = 0; i < units; ++i) {
            stage[placed[i]] += seconds[i][placed[i]];
            bytes[placed[i]] += problem.modules.units[i].weights.count();
            if (i > 0 && placed[i] != placed[i - 1]) hops += 0.25;
        }
        double slowest = 0.0;
        double sum = hops;
        for (std::size_t d = 0; d < stage.size(); ++d) {
            if (bytes[d] > problem.budgets[d].capacity.count()) return 1e9;
            slowest = std::max(slowest, stage[d]);
            sum += stage[d];
        }
        return objective == Objective::bottleneck ? slowest : sum;
    }
    double least = 1e9;
    for (auto next = device; next < problem.budgets.size(); ++next) {
        placed[unit] = next;
        least = std::min(least, least_by_trying(problem, seconds, objective, unit + 1, next, placed));
    }
    return least;
}

}  // namespace

TEST_CASE("apply_profile: the optimum over measured times equals brute force, and the certificate says so") {
    std::mt19937 generator(7);
    auto const below = [&](std::uint32_t limit) { return static_cast<std::int64_t>(generator() % limit); };
    int feasible = 0;
    for (int round = 0; round < 400; ++round) {
        CAPTURE(round);
        auto const units = static_cast<std::size_t>(1 + below(7));
        auto const kinds = static_cast<std::size_t>(1 + below(3));
        List<Device> devices;
        auto const count = 1 + below(4);
        for (std::int64_t i = 0; i < count; ++i) {
            auto const kind = "kind" + std::to_string(static_cast<std::size_t>(below(8)) % kinds);
            devices.push_back(device(kind, static_cast<std::int32_t>(i), 10 + below(60)));
        }
        Problem problem(leaves(units), devices);
        Profile profile;
        // Multiples of 2^-10 s are exact as doubles, but not as picoseconds: sums agree to 1e-11.
        for (std::size_t k = 0; k < kinds; ++k) {
            profile.devices.push_back({.device = "kind" + std::to_string(k), .modules = {}});
            for (std::size_t i = 0; i < units; ++i) {
                auto const seconds = static_cast<double>(below(2000)) / 1024.0;
                profile.devices.back().modules.push_back(decode("m." + std::to_string(i), seconds));
            }
        }
        std::vector<std::vector<double>> seconds(units, std::vector<double>(devices.size()));
        for (std::size_t i = 0; i < units; ++i) {
            for (std::size_t d = 0; d < devices.size(); ++d) {
                auto const kind = static_cast<std::size_t>(devices[d].name.view().back() - '0');
                seconds[i][d] = profile.devices[kind].modules[i].decode;
            }
        }
        REQUIRE(problem.apply(profile).has_value());
        for (auto const objective : {Objective::bottleneck, Objective::latency}) {
            std::vector<std::size_t> placed(units);
            auto const least = least_by_trying(problem, seconds, objective, 0, 0, placed);
            auto const found = Optimal{.objective = objective}(problem.modules, problem.budgets);
            REQUIRE(found.has_value() == (least < 1e9));
            if (!found) continue;
            ++feasible;
            CHECK(found->certificate->value == doctest::Approx(least).epsilon(1e-9));
            CHECK(found->certificate->lower_bound == found->certificate->value);
            for (std::size_t i = 0; i < units; ++i) placed[i] = static_cast<std::size_t>(found->device_of[i]);
            // The placement itself reaches the value.
            std::vector<double> stage(devices.size(), 0.0);
            double sum = 0.0;
            for (std::size_t i = 0; i < units; ++i) {
                stage[placed[i]] += seconds[i][placed[i]];
                sum += seconds[i][placed[i]] + (i > 0 && placed[i] != placed[i - 1] ? 0.25 : 0.0);
            }
            auto const slowest = *std::max_element(stage.begin(), stage.end());
            CHECK((objective == Objective::bottleneck ? slowest : sum) == doctest::Approx(least).epsilon(1e-9));
        }
    }
    CHECK(feasible > 300);
}

TEST_CASE("apply_profile: many very slow units are balanced all the same") {
    Problem problem(leaves(200), {device("a", 0, 100000), device("a", 1, 100000)});
    Profile profile{.model = {}, .devices = {{.device = "a", .modules = {decode("", 1000.0)}}}};
    profile.devices[0].modules.clear();
    for (int i = 0; i < 200; ++i) profile.devices[0].modules.push_back(decode("m." + std::to_string(i), 1000.0));
    REQUIRE(problem.apply(profile).has_value());
    auto const found = Optimal{.objective = Objective::bottleneck}(problem.modules, problem.budgets);
    REQUIRE(found.has_value());
    CHECK(found->certificate->value == doctest::Approx(100'000.0));
    Problem longer(leaves(1001), {device("a", 0, 100000)});
    profile.devices[0].modules = {decode("m.0", 1000.0), decode("", 1.0)};
    for (int i = 1; i <= 1000; ++i) profile.devices[0].modules.push_back(decode("m." + std::to_string(i), 1000.0));
    auto const refused = longer.apply(profile);
    REQUIRE(!refused.has_value());
    CHECK(refused.error().code() == ErrorCode::capacity_exceeded);
}

TEST_CASE("apply_profile: the closest batch and context are taken, repeated measurements weigh more") {
    Problem problem(leaves(1), {device("A", 0, 100)});
    Profile const profile{
        .model = {},
        .devices = {{.device = "a", .batch = 1, .context = 512, .modules = {decode("m.0", 5.0)}},
                    {.device = "a", .batch = 8, .context = 512, .repeat = 3, .modules = {decode("m.0", 1.0)}},
                    {.device = "a", .batch = 8, .context = 512, .repeat = 1, .modules = {decode("m.0", 2.0)}},
                    {.device = "b", .batch = 7, .context = 500, .modules = {decode("m.0", 9.0)}}}};
    auto const times = problem.apply(profile, 7, 500);
    REQUIRE(times.has_value());
    CHECK(problem.seconds(0, 0) == doctest::Approx(1.25));
    CHECK(times->devices[0].batch == 8);
    CHECK(times->devices[0].measured_as == "a");
    CHECK(times->devices[0].measured == 1);
    REQUIRE(problem.apply(profile, 1, 4096).has_value());
    CHECK(problem.seconds(0, 0) == 5.0);
}

TEST_CASE(
    "apply_profile: what lies inside a unit adds up, what holds several is split, what holds measured ones adds "
    "nothing") {
    auto const model = describe(presets::llama_3_8b);
    List<Device> const devices = *parse_device_spec("1xA100-80GB");
    EstimateRequest const request{.context = 512};
    Profile profile{.model = {}, .devices = {{.device = "A100-80GB", .modules = {}}}};
    profile.devices[0].modules = {decode("model.layers.0.self_attn", 2.0),
                                  decode("model.layers.0.self_attn.q_proj", 1.5),
                                  decode("model.layers.0.mlp", 1.0),
                                  decode("model.layers.1", 7.0),
                                  decode("model.layers.1.mlp", 4.0),
                                  decode("model.rotary_emb", 9.0),
                                  decode("model", 300.0),
                                  decode("model.norm", 0.5),
                                  decode("model.embed_tokens", 0.25),
                                  decode("lm_head", 0.75)};
    auto modules = build_sequence(*model, request);
    auto budgets = budgets_for(devices, *model, request);
    auto const times = apply_profile(profile, model->tree, devices, 1, 512, modules, budgets);
    REQUIRE(times.has_value());
    CHECK(modules.units[1].measured[0] == 3.0);
    CHECK(modules.units[2].measured[0] == 7.0);
    // Layers 2 to 31 take what the roofline model says, as much longer as the measured ones.
    CHECK(times->devices[0].estimated.size() == 30);
    CHECK(times->devices[0].estimated.front() == "model.layers.2");
    CHECK(times->devices[0].slowdown > 100.0);
    CHECK(modules.units[3].measured[0] ==
          doctest::Approx(times->devices[0].slowdown * detail::estimated_seconds(modules.units[3], budgets[0])));

    // The whole model was measured, and only that: its units share the time as the roofline model would.
    profile.devices[0].modules = {decode("", 300.0)};
    REQUIRE(apply_profile(profile, model->tree, devices, 1, 512, modules, budgets).has_value());
    double sum = 0.0;
    for (auto const& unit : modules.units) sum += unit.measured[0];
    CHECK(sum == doctest::Approx(300.0));
    CHECK(modules.units[1].measured[0] == doctest::Approx(modules.units[30].measured[0]));
}

TEST_CASE("apply_profile: a tied head adds to the unit that holds its weight") {
    auto const model = describe(presets::gpt2);
    List<Device> const devices = *parse_device_spec("1xT4");
    auto modules = build_sequence(*model, {});
    auto budgets = budgets_for(devices, *model, {});
    Profile const profile{
        .model = {},
        .devices = {{.device = "T4",
                     .modules = {decode("transformer", 8.0), decode("transformer.wte", 1.0), decode("lm_head", 2.0)}}}};
    REQUIRE(apply_profile(profile, model->tree, devices, 1, 512, modules, budgets).has_value());
    CHECK(modules.units[0].path == "transformer.wte");
    CHECK(modules.units[0].measured[0] == 3.0);
}

TEST_CASE("apply_profile: a device that was not measured is as much slower than its roofline as the measured ones") {
    auto const model = describe(presets::llama_3_8b);
    List<Device> const devices = *parse_device_spec("1xA100-80GB+1xL4+cpu:64GiB");
    EstimateRequest const request{.context = 512};
    auto modules = build_sequence(*model, request);
    auto budgets = budgets_for(devices, *model, request);
    Profile profile{.model = {}, .devices = {{.device = "A100-80GB", .modules = {}}}};
    for (std::size_t i = 0; i < modules.units.size(); ++i) {
        auto const seconds = 2.0 * detail::estimated_seconds(modules.units[i], budgets[0]);
        profile.devices[0].modules.push_back(decode(std::string(modules.units[i].path), seconds));
    }
    auto const times = apply_profile(profile, model->tree, devices, 1, 512, modules, budgets);
    REQUIRE(times.has_value());
    CHECK(times->devices[0].slowdown == doctest::Approx(2.0));
    CHECK(times->devices[1].measured_as.empty());
    CHECK(times->devices[1].estimated.size() == modules.units.size());
    CHECK(modules.units[5].measured[1] ==
          doctest::Approx(2.0 * detail::estimated_seconds(modules.units[5], budgets[1])));
}

TEST_CASE("apply_profile: a device goes by its preset's name and by its driver's") {
    auto const model = describe(presets::gpt2);
    for (auto const* name : {"a100_40gb", "A100-40GB", "NVIDIA A100-SXM4-40GB"}) {
        List<Device> devices = *parse_device_spec("1xA100-40GB");
        auto modules = build_sequence(*model, {});
        auto budgets = budgets_for(devices, *model, {});
        Profile const profile{.model = {}, .devices = {{.device = name, .modules = {decode("", 1.0)}}}};
        auto const times = apply_profile(profile, model->tree, devices, 1, 512, modules, budgets);
        REQUIRE(times.has_value());
        CHECK(times->devices[0].measured_as == name);
    }
}

TEST_CASE("apply_profile: prefill is used where decoding was not measured") {
    Problem problem(leaves(2), {device("a", 0, 100)});
    Profile const profile{
        .model = {},
        .devices = {
            {.device = "a", .modules = {{.module = "m.0", .prefill = 3.0}, {.module = "m.1", .prefill = 4.0}}}}};
    auto const times = problem.apply(profile);
    REQUIRE(times.has_value());
    CHECK(times->phase == Phase::prefill);
    CHECK(problem.seconds(1, 0) == 4.0);
}

TEST_CASE("apply_profile: refusals name the module or the device") {
    auto const says = [](Result<MeasuredTimes> const& times) {
        return times ? std::string("no refusal")
                     : std::string(name_of(times.error().code())) + " " + times.error().message();
    };
    Problem problem(leaves(2), {device("a", 0, 100)});
    auto const with = [&](std::vector<ModuleTime> modules, std::string name = "a") {
        return says(
            problem.apply({.model = {}, .devices = {{.device = std::move(name), .modules = std::move(modules)}}}));
    };
    CHECK(with({decode("n.0", 1.0)}) == "unknown_name n.0: is no module of the model");
    auto const model = describe(presets::llama_3_8b);
    CHECK(detail::check_module_name(model->tree, "model.layers.31.self_atn")->message() ==
          "model.layers.31.self_atn: is no module of the model; did you mean model.layers.31.self_attn?");
    CHECK(!detail::check_module_name(model->tree, "model.layers.31.self_attn").has_value());
    CHECK(with({decode("m.2", 1.0)}) == "unknown_name m.2: is no module of the model; those of m are numbered 0 to 1");
    CHECK(with({decode("m.0.weight.x", 1.0)}) == "unknown_name m.0.weight.x: is no module of the model");
    CHECK(with({decode("m.0", 1.0)}) ==
          "missing_field m.1: has no time on a, and nothing is known to estimate it from; measure it, or name the "
          "devices by --devices");
    problem.devices[0].bandwidth = 1.0;
    CHECK(with({decode("m.0", 1.0)}, "b") ==
          "unknown_name a: is not among the measured devices: b; measure it, or name a device that was measured");
    // Of a device in --max-memory only the size is known: it goes by the one name of the profile.
    problem.devices[0].bandwidth = 0.0;
    CHECK(with({decode("m", 1.0)}, "b") == "no refusal");
}
