// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/sgd.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "optimizer_cases.hpp"

#include <cmath>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("Sgd: three steps of one weight are the published ones") {
    // torch.optim.SGD's formula in float64; a step rounds the weight once and what is below it a few times.
    struct Case {
        Sgd rule;
        double expected[3];
    };
    Case const cases[] = {
        {{.momentum = 0.9}, {0.99, 1.001, 0.9809}},
        {{.momentum = 0.9, .is_nesterov = true, .weight_decay = 0.01}, {0.9791, 1.00632971, 0.9548056125509999}},
    };
    HostContext context({.threads = 1});
    float const gradients[] = {0.1F, -0.2F, 0.3F};
    for (auto const& one : cases) {
        ParameterCase<Sgd> weight(one.rule, {1.0F});
        for (int i = 0; i < 3; ++i) {
            REQUIRE(weight.step({.number = i + 1, .learning_rate = 0.1}, {gradients[i]}, context));
            CHECK(std::abs(static_cast<double>(weight.weights()[0]) - one.expected[i]) <= 2.0 * (i + 1) / (1 << 24U));
        }
    }
}

TEST_CASE("Sgd: equals torch's float64 within the roundings of float") {
    HostContext context({.threads = 1});
    int cases = 0;
    for (auto const& line : golden_lines("optimizers.txt")) {
        if (line[0][0] != "sgd") continue;
        auto const settings = numbers_of({line[0].begin() + 1, line[0].end()});
        Sgd const rule{.momentum = settings[1], .is_nesterov = settings[3] != 0.0, .weight_decay = settings[2]};
        ParameterCase<Sgd> weight(rule, input_numbers(0, 37));
        CHECK(weight.state().size() == (settings[1] > 0.0 ? 1 : 0));
        for (int step = 1; step <= 3; ++step)
            REQUIRE(
                weight.step({.number = step, .learning_rate = settings[0]}, input_numbers(1000 * step, 37), context));
        auto const expected = numbers_of(line[1]);
        // Momenta are below 3/2 and round four times in three steps; the weight, below 1, three times by half a unit.
        auto const tolerance = (3.0 + 12.0 * settings[0]) / (1 << 24U);
        for (std::size_t i = 0; i < expected.size(); ++i)
            CHECK(std::abs(static_cast<double>(weight.weights()[i]) - expected[i]) <= tolerance);
        ++cases;
    }
    CHECK(cases == 3);
}

TEST_CASE("Sgd: the same bits at every instruction set level, with any threads, in any shares") {
    auto const start = input_numbers(5, 20'003);
    for (auto const& rule : {Sgd{.momentum = 0.0}, Sgd{.momentum = 0.9, .is_nesterov = true, .weight_decay = 0.1}}) {
        auto const run = [&](HostOptions const& options, std::vector<std::int64_t> const& cuts) {
            HostContext context(options);
            ParameterCase<Sgd> weight(rule, start);
            for (int step = 1; step <= 3; ++step) {
                REQUIRE(weight.step({.number = step, .learning_rate = 0.3, .gradient_factor = 0.3},
                                    input_numbers(9 * step, 20'003), context, cuts));
            }
            return std::pair(weight.weights(), weight.state());
        };
        auto const expected = run({.threads = 1, .isa = IsaLevel::portable}, {0});
        CHECK(run({.threads = 3}, {0, 256, 19'968}) == expected);
    }
}

TEST_CASE("Sgd: refuses settings that make no sense") {
    CHECK_FALSE(Sgd{.momentum = 1.0}.check());
    CHECK_FALSE(Sgd{.weight_decay = std::nan("")}.check());
    CHECK(Sgd{.momentum = 0.0, .is_nesterov = true}.check().error().message() ==
          "sgd: is_nesterov: asks for a momentum; set momentum, or leave Nesterov out");
}
