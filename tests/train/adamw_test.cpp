// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/adamw.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "optimizer_cases.hpp"

#include <cmath>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// One rounding to float.
constexpr double unit = 1.0 / (1 << 24U);

}  // namespace

TEST_CASE("AdamW: five steps of one weight are the published ones") {
    // torch.optim.AdamW's formula in float64. A step rounds the kept share, the weight times it and the difference,
    // each at most half a unit of 1, and the change of about 0.01 a few times: below 4 units in all.
    AdamW const rule{.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
    ParameterCase<AdamW> weight(rule, {1.0F});
    HostContext context({.threads = 1});
    double const expected[] = {0.989000001, 0.991644740275703, 0.9872690229640539, 0.988559790887788,
                               0.9854018755863746};
    float const gradients[] = {0.1F, -0.2F, 0.3F, -0.4F, 0.5F};
    for (int i = 0; i < 5; ++i) {
        REQUIRE(weight.step({.number = i + 1, .learning_rate = 0.01}, {gradients[i]}, context));
        CHECK(std::abs(static_cast<double>(weight.weights()[0]) - expected[i]) <= 4.0 * unit * (i + 1));
    }
}

TEST_CASE("AdamW: equals torch's float64 within the roundings of float") {
    HostContext context({.threads = 1});
    int cases = 0;
    for (auto const& line : golden_lines("optimizers.txt")) {
        if (line[0][0] != "adamw") continue;
        auto const settings = numbers_of({line[0].begin() + 1, line[0].end()});
        AdamW const rule{
            .beta1 = settings[1], .beta2 = settings[2], .epsilon = settings[3], .weight_decay = settings[4]};
        ParameterCase<AdamW> weight(rule, input_numbers(0, 37));
        for (int step = 1; step <= 3; ++step)
            REQUIRE(
                weight.step({.number = step, .learning_rate = settings[0]}, input_numbers(1000 * step, 37), context));
        auto const expected = numbers_of(line[1]);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            // A change is at most lr * (1 - beta1) / sqrt(1 - beta2) at its worst, after 3 steps about lr, and rounds about ten
            // times; moments that cancel lose as much as their largest term had: gradients below 1/2 by 2^-6 of it at the least.
            auto const tolerance = unit * (6.0 * std::abs(expected[i]) + 3.0 + 64.0 * 30.0 * settings[0]);
            CHECK(std::abs(static_cast<double>(weight.weights()[i]) - expected[i]) <= tolerance);
        }
        ++cases;
    }
    CHECK(cases == 2);
}

TEST_CASE("AdamW: the same bits at every instruction set level, with any threads, in any shares") {
    auto const start = input_numbers(5, 70'001);
    auto const run = [&](HostOptions const& options, std::vector<std::int64_t> const& cuts) {
        HostContext context(options);
        ParameterCase<AdamW> weight(AdamW{}, start);
        for (int step = 1; step <= 3; ++step) {
            REQUIRE(weight.step({.number = step, .learning_rate = 0.01, .gradient_factor = 0.3},
                                input_numbers(9 * step, 70'001), context, cuts));
        }
        return std::pair(weight.weights(), weight.state());
    };
    auto const expected = run({.threads = 1, .isa = IsaLevel::portable}, {0});
    CHECK(run({.threads = 3, .isa = IsaLevel::portable}, {0}) == expected);
    CHECK(run({.threads = 2}, {0}) == expected);
    CHECK(run({.threads = 1}, {0, 256, 1024, 69'888}) == expected);
    for (auto const level : {IsaLevel::neon, IsaLevel::avx2, IsaLevel::avx512}) {
        if (HostContext({.threads = 1, .isa = level}).isa()) CHECK(run({.threads = 2, .isa = level}, {0}) == expected);
    }
}

TEST_CASE("AdamW: each operation rounds by itself, whatever the compiler may fuse") {
    // One element by the written order, in double with a rounding to float after every operation: products and sums of two
    // floats are exact in double or round there far below a float's half unit; square roots and quotients round the same
    // twice (Figueroa, When is double rounding innocuous, 1995). Through memory, or the compiler fuses these operations.
    auto const f = [](double value) {
        float volatile rounded = static_cast<float>(value);
        return static_cast<double>(rounded);
    };
    HostContext context({.threads = 1});
    AdamW const rule{};
    auto const weights = input_numbers(3, 1000);
    auto const gradients = input_numbers(77, 1000);
    ParameterCase<AdamW> trained(rule, weights);
    OptimizerStep const step{.number = 1, .learning_rate = 0.01, .gradient_factor = 0.7};
    REQUIRE(trained.step(step, gradients, context));
    auto const task = rule.task(step, true);
    int wrong = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        auto const g = f(static_cast<double>(gradients[i]) * static_cast<double>(task.gradient_factor));
        auto const m = f(static_cast<double>(task.first_share) * g);
        auto const v = f(static_cast<double>(task.second_share) * f(g * g));
        auto const root = f(f(std::sqrt(v)) * static_cast<double>(task.root_factor));
        auto const change = f(m / f(root + static_cast<double>(task.epsilon)));
        auto const kept = f(static_cast<double>(weights[i]) * static_cast<double>(task.kept));
        auto const expected = f(kept - f(static_cast<double>(task.step_size) * change));
        if (static_cast<double>(trained.weights()[i]) != expected) ++wrong;
    }
    CHECK(wrong == 0);
}

TEST_CASE("AdamW: a parameter that does not decay keeps its weight where there is no gradient") {
    HostContext context({.threads = 1});
    ParameterCase<AdamW> norm(AdamW{}, {1.0F, 2.0F});
    REQUIRE(norm.step({.number = 1, .learning_rate = 0.5}, {0.0F, 0.0F}, context, {0}, false));
    CHECK(norm.weights() == std::vector<float>{1.0F, 2.0F});
    ParameterCase<AdamW> weight(AdamW{}, {1.0F, 2.0F});
    REQUIRE(weight.step({.number = 1, .learning_rate = 0.5}, {0.0F, 0.0F}, context));
    CHECK(weight.weights() == std::vector<float>{0.95F, 1.9F});
}

TEST_CASE("AdamW: refuses settings and steps that make no sense") {
    CHECK_FALSE(AdamW{.beta1 = 1.0}.check());
    CHECK_FALSE(AdamW{.beta2 = -0.1}.check());
    CHECK_FALSE(AdamW{.beta2 = std::nan("")}.check());
    CHECK_FALSE(AdamW{.epsilon = 0.0}.check());
    CHECK_FALSE(AdamW{.epsilon = 1e-45}.check());
    CHECK_FALSE(AdamW{.weight_decay = -1.0}.check());
    HostContext context({.threads = 1});
    ParameterCase<AdamW> weight(AdamW{}, std::vector<float>(300));
    std::vector<float> const gradients(300);
    CHECK(weight.step({.number = 0}, gradients, context).error().message() ==
          "adamw: step: steps are counted from 1 (got 0, expected at least 1)");
    CHECK_FALSE(weight.step({.number = 1, .learning_rate = std::nan("")}, gradients, context));
    CHECK_FALSE(weight.step({.number = 1, .gradient_factor = HUGE_VAL}, gradients, context));

    auto stream = context.make_stream();
    std::vector<float> state(600);
    ParameterRange range{.name = "w",
                         .elements = 300,
                         .range = {0, 301},
                         .weights = {state.data(), {300}},
                         .gradients = {gradients.data(), {300}},
                         .state = {reinterpret_cast<std::byte*>(state.data()), nullptr},
                         .decays = true};
    CHECK(AdamW{}.update({}, range, stream).error().code() == ErrorCode::shape_mismatch);
    range.range = {0, 299};
    CHECK(AdamW{}.update({}, range, stream).error().code() == ErrorCode::shape_mismatch);
    range.range = {0, 300};
    CHECK(AdamW{}.update({}, range, stream).error().message() ==
          "adamw: w: the state has an array without memory (got 1)");
}

TEST_CASE("decays_weight: matrices decay, biases and norms do not") {
    CHECK(decays_weight("model.layers.0.self_attn.q_proj.weight", 2));
    CHECK(decays_weight("model.embed_tokens.weight", 2));
    CHECK_FALSE(decays_weight("model.layers.0.input_layernorm.weight", 1));
    CHECK_FALSE(decays_weight("transformer.h.0.attn.c_attn.bias", 1));
    CHECK_FALSE(decays_weight("in_proj_bias", 2));
    CHECK_FALSE(decays_weight("model.layers.3.self_attn.q_norm.weight", 2));
    CHECK_FALSE(decays_weight("encoder.layer.0.output.LayerNorm.weight", 2));
    CHECK(decays_weight("norm.layers.0.weight", 2));
    CHECK(decays_weight("weight", 2));
}

TEST_CASE("optimizer_share: whole blocks of 256, all elements once, in order") {
    for (std::int64_t const elements : {0, 1, 255, 256, 257, 1000, 4096, 100'000}) {
        for (std::int64_t ranks = 1; ranks <= 9; ++ranks) {
            std::int64_t next = 0;
            for (std::int64_t rank = 0; rank < ranks; ++rank) {
                auto const share = optimizer_share(elements, ranks, rank);
                CHECK(share.begin == next);
                CHECK((share.size() == 0 || share.begin % 256 == 0));
                next = share.end;
            }
            CHECK(next == elements);
        }
    }
}
