// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/adam8bit.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "optimizer_cases.hpp"

#include <bit>
#include <cmath>
#include <cstdlib>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

std::vector<std::string> golden(std::string const& what) {
    for (auto const& line : golden_lines("adam8bit.txt")) {
        if (line[0][0] == what) return line[1];
    }
    return {};
}

std::vector<int> golden_bytes(std::string const& what) {
    auto const text = golden(what).at(0);
    std::vector<int> out;
    for (std::size_t i = 0; i < text.size(); i += 2) out.push_back(std::stoi(text.substr(i, 2), nullptr, 16));
    return out;
}

}  // namespace

TEST_CASE("DynamicMap: bitsandbytes' numbers, within what its float arithmetic loses") {
    for (auto const& [name, map] :
         {std::pair{"signed", &detail::signed_dynamic_map}, {"unsigned", &detail::unsigned_dynamic_map}}) {
        auto const expected = numbers_of(golden(name));
        REQUIRE(expected.size() == 256);
        for (std::size_t i = 0; i < 256; ++i) {
            auto const theirs = static_cast<float>(expected[i]);
            auto const distance = std::bit_cast<std::int32_t>(map->values[i]) - std::bit_cast<std::int32_t>(theirs);
            CHECK(std::abs(distance) <= 3);
        }
    }
    CHECK(detail::signed_dynamic_map.values[127] == 0.0F);
    CHECK(detail::unsigned_dynamic_map.values[0] == 0.0F);
}

TEST_CASE("DynamicMap: nearest is the nearest, as a search over all numbers finds it") {
    for (auto const* map : {&detail::signed_dynamic_map, &detail::unsigned_dynamic_map}) {
        for (std::size_t i = 0; i < 256; ++i) CHECK(map->nearest(map->values[i]) == i);
        for (auto value : input_numbers(0, 2000)) {
            value *= value < 0.1F ? 0.01F : 2.0F;
            std::size_t best = 0;
            auto const distance = [&](std::size_t k) {
                return std::abs(static_cast<double>(map->values[k]) - static_cast<double>(value));
            };
            for (std::size_t k = 1; k < 256; ++k) best = distance(k) < distance(best) ? k : best;
            CHECK(map->nearest(value) == best);
        }
    }
    // Of a tie the lower one: half of the smallest number above 0.
    auto const& map = detail::signed_dynamic_map;
    CHECK(map.nearest(map.values[128] / 2.0F) == 127);
    CHECK(map.nearest(map.values[126] / 2.0F) == 126);
    CHECK(map.nearest(std::nanf("")) == 0);
}

TEST_CASE("Adam8bit: three steps of 4,200 elements leave bitsandbytes' states and weights") {
    HostContext context({.threads = 2});
    Adam8bit const rule{.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
    ParameterCase<Adam8bit> weight(rule, input_numbers(0, 4200));
    for (int step = 1; step <= 3; ++step)
        REQUIRE(weight.step({.number = step, .learning_rate = 0.01}, input_numbers(10'000 * step, 4200), context));

    // The maps differ in their last bits, so that a moment that lies in the middle of two numbers may become the other one: one in
    // 2^15 for each moment and step.
    for (std::size_t array = 0; array < 2; ++array) {
        auto const expected = golden_bytes(array == 0 ? "state1" : "state2");
        REQUIRE(expected.size() == 4200);
        int differing = 0;
        int most = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            auto const difference = std::abs(static_cast<int>(weight.state()[array][i]) - expected[i]);
            differing += difference > 0 ? 1 : 0;
            most = std::max(most, difference);
        }
        CHECK(differing <= 2);
        CHECK(most <= 1);
        auto const largest = numbers_of(golden(array == 0 ? "absmax1" : "absmax2"));
        auto const ours = weight.floats(2 + array);
        REQUIRE(ours.size() == largest.size());
        for (std::size_t i = 0; i < largest.size(); ++i)
            CHECK(std::abs(static_cast<double>(ours[i]) - largest[i]) <= 16.0 / (1 << 24U) * largest[i]);
    }
    auto const expected = numbers_of(golden("weights"));
    REQUIRE(expected.size() == 525);
    int differing = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (std::abs(static_cast<double>(weight.weights()[8 * i]) - expected[i]) > 1e-6) ++differing;
    }
    CHECK(differing <= 1);
}

TEST_CASE("Adam8bit: shares of whole blocks, threads and levels leave the bits of the whole") {
    auto const run = [](HostOptions const& options, std::vector<std::int64_t> const& cuts) {
        HostContext context(options);
        ParameterCase<Adam8bit> weight(Adam8bit{}, input_numbers(3, 5000));
        for (int step = 1; step <= 4; ++step)
            REQUIRE(
                weight.step({.number = step, .learning_rate = 0.01}, input_numbers(777 * step, 5000), context, cuts));
        return std::pair(weight.weights(), weight.state());
    };
    auto const expected = run({.threads = 1, .isa = IsaLevel::portable}, {0});
    CHECK(run({.threads = 3}, {0}) == expected);
    CHECK(run({.threads = 1}, {0, 256, 2560, 4864}) == expected);
}

TEST_CASE("Adam8bit: small parameters take AdamW's own steps, whatever their share") {
    HostContext context({.threads = 1});
    ParameterCase<Adam8bit> small(Adam8bit{}, input_numbers(3, 4095));
    ParameterCase<AdamW> plain(AdamW{}, input_numbers(3, 4095));
    REQUIRE(small.step({.number = 1, .learning_rate = 0.01}, input_numbers(9, 4095), context, {0, 1024}));
    REQUIRE(plain.step({.number = 1, .learning_rate = 0.01}, input_numbers(9, 4095), context));
    CHECK(small.weights() == plain.weights());
    CHECK(small.state() == plain.state());
    // A share of a large parameter may be small.
    CHECK(Adam8bit{}.state(4096, {0, 256}).bytes() == Bytes{256 * 2 + 8});
    CHECK(Adam8bit{}.state(4095, {0, 256}).bytes() == Bytes{256 * 8});
}

TEST_CASE("Adam8bit: a share that cuts a block is refused, an undefined gradient stays in its block") {
    HostContext context({.threads = 1});
    ParameterCase<Adam8bit> weight(Adam8bit{}, std::vector<float>(5000));
    std::vector<float> gradients(5000, 1.0F);
    CHECK(weight.step({}, gradients, context, {0, 100}).error().code() == ErrorCode::shape_mismatch);
    gradients[300] = std::nanf("");
    ParameterCase<Adam8bit> other(Adam8bit{}, std::vector<float>(5000));
    REQUIRE(other.step({}, gradients, context));
    REQUIRE(other.step({.number = 2}, std::vector<float>(5000, 1.0F), context));
    for (std::size_t i = 0; i < 5000; ++i) CHECK(std::isnan(other.weights()[i]) == (i / 256 == 1));
}
