// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/kahan_sum.hpp>
#include <shardwise/train/sgd.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "optimizer_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace shardwise;
using namespace shardwise::testing;

static_assert(OptimizerRule<KahanSum<AdamW>>);
static_assert(OptimizerRule<KahanSum<Sgd>>);
static_assert(OptimizerRule<KahanSum<Adam8bit>>);

namespace {

std::vector<float> halves(std::vector<float> values) {
    for (auto& value : values) value = from_bf16(to_bf16(value));
    return values;
}
std::vector<std::uint16_t> bits_of(std::vector<float> const& values) {
    std::vector<std::uint16_t> out;
    for (auto const value : values) out.push_back(to_bf16(value));
    return out;
}
template <class Rule>
std::vector<std::uint16_t> lost_of(ParameterCase<Rule> const& weight) {
    auto const& bytes = weight.state().back();
    std::vector<std::uint16_t> out(bytes.size() / 2);
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}
/// The gradients of train_kahan.py.
std::vector<float> gradients_of(int step, std::int64_t count) {
    auto out = input_numbers(1000 * step, count);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = out[i] * 0.5F + (i % 2 == 0 ? 0.25F : -0.125F);
    return out;
}

}  // namespace

TEST_CASE("KahanSum: two hundred steps give the bits of exact arithmetic, and the weights of float64") {
    HostContext context({.threads = 1});
    auto const lines = golden_lines("kahan.txt");
    REQUIRE(lines.size() == 1);
    auto const settings = numbers_of(lines[0][0]);
    auto const expected = numbers_of(lines[0][1]);
    auto const count = static_cast<std::int64_t>(expected.size());
    AdamW const rule{.beta1 = settings[2], .beta2 = settings[3], .epsilon = settings[4], .weight_decay = settings[5]};
    auto const start = halves(input_numbers(0, count));
    ParameterCase<KahanSum<AdamW>> weight(KahanSum<AdamW>{rule}, start);
    ParameterCase<AdamW> master(rule, start);
    for (int step = 1; step <= static_cast<int>(settings[0]); ++step) {
        OptimizerStep const at{.number = step, .learning_rate = settings[1]};
        REQUIRE(weight.step(at, gradients_of(step, count), context));
        REQUIRE(master.step(at, gradients_of(step, count), context));
    }
    auto const bits = bits_of(weight.weights());
    auto const lost = lost_of(weight);
    double joined_error = 0.0;
    double master_error = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(bits[i] == static_cast<std::uint16_t>(numbers_of(lines[0][2])[i]));
        CHECK(lost[i] == static_cast<std::uint16_t>(numbers_of(lines[0][3])[i]));
        // A weight below 1 is rounded by at most 2^-9.
        CHECK(std::abs(static_cast<double>(weight.weights()[i]) - expected[i]) <= 1.0 / 512.0);
        auto const joined = static_cast<double>(weight.weights()[i]) + static_cast<double>(from_bf16(lost[i]));
        joined_error = std::max(joined_error, std::abs(joined - expected[i]));
        master_error = std::max(master_error, std::abs(static_cast<double>(master.weights()[i]) - expected[i]));
    }
    // A step rounds the compensation, of at most 2^-9, to 8 digits, at most 2^-18: over 200 steps in a random walk about 14 of these.
    CHECK(joined_error < 14.0 / 262'144.0);
    CHECK(master_error < joined_error);
}

TEST_CASE("KahanSum: the same bits with any threads, in any shares, for every rule; weights are numbers of bf16") {
    auto const check = [](auto const& rule) {
        using Rule = std::decay_t<decltype(rule)>;
        auto const start = halves(input_numbers(5, 70'001));
        auto const run = [&](HostOptions const& options, std::vector<std::int64_t> const& cuts) {
            HostContext context(options);
            ParameterCase<KahanSum<Rule>> weight(KahanSum<Rule>{rule}, start);
            for (int step = 1; step <= 3; ++step) {
                REQUIRE(weight.step({.number = step, .learning_rate = 1e-3, .gradient_factor = 0.3},
                                    input_numbers(9 * step, 70'001), context, cuts));
            }
            return std::pair(weight.weights(), weight.state());
        };
        auto const expected = run({.threads = 1, .isa = IsaLevel::portable}, {0});
        CHECK(expected.first == halves(expected.first));
        CHECK(expected.first != start);
        CHECK(run({.threads = 3}, {0}) == expected);
        CHECK(run({.threads = 1}, {0, 256, 1024, 69'888}) == expected);
    };
    check(AdamW{});
    check(Sgd{.momentum = 0.9});
    check(Adam8bit{});
}
