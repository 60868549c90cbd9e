// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/spec.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/plan/plan_parallel.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace shardwise;

namespace {

Result<ParallelPlan> plan_of(ModelConfig const& config, std::string_view spec, PlanRequest const& request) {
    auto const model = describe(config);
    REQUIRE(model);
    auto const topology = parse_topology(spec);
    REQUIRE(topology);
    return plan_parallel(*model, *topology, request);
}

/// The field that a refusal names, "" where nothing is refused.
std::string refused(ModelConfig const& config, std::string_view spec, PlanRequest const& request,
                    std::string_view legal) {
    auto const plan = plan_of(config, spec, request);
    if (plan) return {};
    CHECK(plan.error().code() == ErrorCode::invalid_argument);
    CHECK_MESSAGE(plan.error().message().find(legal) != std::string::npos, plan.error().message());
    return std::string(plan.error().place());
}

bool has_reason(ParallelPlan const& plan, std::string_view text) {
    return std::any_of(plan.reasons.begin(), plan.reasons.end(),
                       [&](auto const& reason) { return reason.find(text) == 0; });
}

}  // namespace

TEST_CASE("plan: a pin that no cut could have is refused by name, with the legal values") {
    auto const& dense = presets::llama_3_8b;      // 32 query heads, 8 key-value heads, 32 layers
    auto const& experts = presets::mixtral_8x7b;  // 8 experts
    PlanRequest const job{.estimate = {.batch = 4}};
    auto const with = [&](PlanPins const& pins) {
        auto own = job;
        own.pins = pins;
        return own;
    };
    CHECK(refused(dense, "64xH100-80GB", with({.tp = 33}),
                  "query heads (got 33, expected at most 32); legal are 1 to 32") == "tp");
    CHECK(refused(dense, "64xH100-80GB", with({.pp = 33}), "layers (got 33, expected at most 32); legal are 1 to 32") ==
          "pp");
    CHECK(refused(dense, "8xH100-80GB", with({.tp = 16}), "devices (got 16, expected at most 8); legal are 1 to 8") ==
          "tp");
    CHECK(refused(dense, "8xH100-80GB", with({.dp = 5}), "legal are 1 to 4") == "dp");
    CHECK(refused(dense, "8xH100-80GB", with({.tp = 0}), "legal are 1 to 8") == "tp");
    CHECK(refused(dense, "8xH100-80GB", with({.pp = -1}), "at least 1") == "pp");
    CHECK(refused(dense, "8xH100-80GB", with({.dp = INT64_MIN}), "at least 1") == "dp");
    CHECK(refused(dense, "8xH100-80GB", with({.tp = 4, .pp = 4}), "(got 16, expected at most 8)") == "tp, pp");
    CHECK(refused(dense, "8xH100-80GB", with({.ep = 2}), "legal is 1") == "ep");
    CHECK(refused(experts, "16xH100-80GB", with({.ep = 9}), "legal are 1 to 8") == "ep");
    // Five ranks would have as many experts as four: two on the fullest.
    CHECK(refused(experts, "16xH100-80GB", with({.ep = 5}), "legal are 1, 2, 3, 4, 8") == "ep");
    CHECK(refused(dense, "8xH100-80GB", with({.micro_batches = 5}), "legal are 1 to 4") == "micro_batches");
    CHECK(refused(dense, "8xH100-80GB", with({.dp = 2, .micro_batches = 3}), "legal are 1 to 2") == "micro_batches");
    CHECK(refused(dense, "8xH100-80GB", with({.micro_batches = 0}), "at least 1") == "micro_batches");
    CHECK(refused(dense, "8xH100-80GB", with({.zero = 1}), "legal is 0") == "zero");
    auto training = with({.zero = 4});
    training.estimate.training = TrainingPlan{};
    CHECK(refused(dense, "8xH100-80GB", training, "legal are 0 to 3") == "zero");
    training.pins.zero = -1;
    CHECK(refused(dense, "8xH100-80GB", training, "legal are 0 to 3") == "zero");
    CHECK(refused(dense, "8xH100-80GB", with({.tp = 8, .pp = 1, .dp = 1, .ep = 1, .zero = 0, .micro_batches = 4}), "")
              .empty());
    CHECK(refused(experts, "16xH100-80GB", with({.ep = 3}), "").empty());
}

TEST_CASE("plan: an even plan's degrees divide query heads, key-value heads or the other way round, and experts") {
    // vLLM takes each of these for Qwen2.5-7B (28 query heads, 4 key-value heads), and no other up to 28.
    for (std::int64_t tp = 1; tp <= 28; ++tp) {
        CAPTURE(tp);
        bool const is_taken = tp == 1 || tp == 2 || tp == 4 || tp == 28;
        CHECK(is_even_tp(presets::qwen2_5_7b, tp) == is_taken);
    }
    CHECK(is_even_tp(presets::llama_3_70b, 16));  // 8 key-value heads, each on two ranks
    CHECK(!is_even_tp(presets::llama_3_70b, 12));
    CHECK(is_even_ep(presets::mixtral_8x7b, 4));
    CHECK(!is_even_ep(presets::mixtral_8x7b, 3));
    PlanRequest request{.estimate = {.batch = 8}, .pins = {.tp = 3}, .is_even = true};
    CHECK(refused(presets::qwen2_5_7b, "8xA100-80GB", request, "legal are 1, 2, 4") == "tp");
    request.pins = {.ep = 3};
    CHECK(refused(presets::mixtral_8x7b, "8xA100-80GB", request, "legal are 1, 2, 4, 8") == "ep");
}

TEST_CASE("plan: --even's plan is even, and without it the best even plan is among the alternatives") {
    int uneven = 0;
    for (std::string_view const devices : {"3xA100-80GB", "7xA100-80GB", "2x(5xA100-80GB)", "8xA100-80GB"}) {
        for (auto const& config : {presets::qwen2_5_7b, presets::mixtral_8x7b}) {
            for (bool const trains : {false, true}) {
                CAPTURE(devices);
                CAPTURE(trains);
                PlanRequest request{.estimate = {.batch = 12, .context = 1024}};
                if (trains) request.estimate.training = TrainingPlan{};
                auto const free = plan_of(config, devices, request);
                request.is_even = true;
                auto const even = plan_of(config, devices, request);
                if (!free) {
                    CHECK(!even);
                    continue;
                }
                for (auto const& other : free->alternatives) CHECK(other.is_even == is_even(config, other.degrees));
                CHECK(free->is_even == is_even(config, free->degrees));
                CHECK(std::is_sorted(free->alternatives.begin(), free->alternatives.end(),
                                     [](auto const& a, auto const& b) { return a.loss < b.loss; }));
                if (!even) {
                    CHECK(!free->is_even);
                    continue;
                }
                CHECK(even->is_even);
                for (auto const& other : even->alternatives) CHECK(other.is_even);
                CHECK(even->cost.step.total() >= free->cost.step.total());
                if (free->is_even) {
                    CHECK(even->degrees == free->degrees);
                    continue;
                }
                ++uneven;
                CHECK(free->alternatives.size() <= max_alternatives);
                auto const best = std::find_if(free->alternatives.begin(), free->alternatives.end(),
                                               [](auto const& other) { return other.is_even; });
                REQUIRE(best != free->alternatives.end());
                CHECK(best->degrees == even->degrees);
                CHECK(best->recompute == even->recompute);
                CHECK(best->is_sequence_parallel == even->is_sequence_parallel);
                CHECK(best->cost.step.total() == doctest::Approx(even->cost.step.total()).epsilon(1e-12));
                CHECK(std::count_if(free->alternatives.begin(), free->alternatives.end(),
                                    [&](auto const& other) { return other.degrees == best->degrees; }) == 1);
            }
        }
    }
    CHECK(uneven > 3);
}

TEST_CASE("plan: reasons say which degrees were asked for, and name no neighbour that the pins forbid") {
    PlanRequest const request{.estimate = {.batch = 8}, .pins = {.tp = 2, .pp = 2, .micro_batches = 4}};
    auto const plan = plan_of(presets::llama_3_8b, "8xA100-80GB", request);
    REQUIRE(plan);
    CHECK(plan->degrees.tp == 2);
    CHECK(plan->degrees.pp == 2);
    CHECK(plan->degrees.micro_batches == 4);
    CHECK(has_reason(*plan, "tensor parallel 2, as asked for"));
    CHECK(has_reason(*plan, "a pipeline of 2 stages, as asked for"));
    CHECK(has_reason(*plan, "4 micro-batches of "));
    for (auto const& reason : plan->reasons) {
        CHECK(reason.find("with tp") == std::string::npos);
        CHECK(reason.find("with pp") == std::string::npos);
    }
    for (auto const& other : plan->alternatives) CHECK(other.degrees.tp == 2);
}

TEST_CASE("plan: a batch that is chosen has a sequence for each pinned replica and micro-batch") {
    CHECK(smallest_batch({}) == 1);
    CHECK(smallest_batch({.dp = 3}) == 4);
    CHECK(smallest_batch({.dp = 2, .micro_batches = 3}) == 8);  // two ranks with three sequences each have 5 or 6
    CHECK(smallest_batch({.dp = -1, .micro_batches = INT64_MAX}) == 1);
    PlanRequest request{.estimate = {.batch = 0, .context = 1024}, .objective = PlanObjective::throughput};
    request.pins = {.dp = 3};
    auto const plan = plan_of(presets::llama_3_8b, "4xA100-80GB", request);
    REQUIRE(plan);
    CHECK(plan->degrees.dp == 3);
    CHECK(plan->batch >= 4);
    // Where a batch is not searched it is the smallest.
    request.objective = PlanObjective::latency;
    CHECK(plan_of(presets::llama_3_8b, "4xA100-80GB", request)->batch == 4);
}

TEST_CASE("plan: pins that nothing fits with are an error with what to leave out") {
    PlanRequest const request{.estimate = {.context = 4096}, .pins = {.tp = 1, .pp = 1}};
    auto const plan = plan_of(presets::llama_3_70b, "4xA100-80GB", request);
    REQUIRE(!plan);
    CHECK(plan.error().code() == ErrorCode::out_of_memory);
    CHECK(plan.error().message().find("closest cut (tp 1)") != std::string::npos);
    CHECK(plan.error().message().find("leaving out --tp, or leaving out --pp") != std::string::npos);
    CHECK(!has_plan(*describe(presets::llama_3_70b), *parse_topology("4xA100-80GB"), request));
}
