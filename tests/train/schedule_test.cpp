// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/schedule.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <array>
#include <cmath>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("Schedule: the published factors") {
    // The formulas of transformers' optimization.py in float64: warm-up 10, total 100.
    auto const factors = [](ScheduleKind kind, double floor, std::int64_t decay,
                            std::vector<std::int64_t> const& steps) {
        Schedule const schedule{
            .kind = kind, .learning_rate = 1.0, .warm_up = 10, .total = 100, .decay = decay, .floor = floor};
        REQUIRE(schedule.check());
        std::vector<double> out;
        for (auto const step : steps) out.push_back(schedule.at(step));
        return out;
    };
    auto const is_near = [](std::vector<double> const& got, std::vector<double> const& expected) {
        for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) <= 6e-11);
    };
    std::vector<std::int64_t> const steps{0, 5, 10, 55, 99};
    is_near(factors(ScheduleKind::cosine, 0.0, 0, steps), {0.0, 0.5, 1.0, 0.5, 3.0458649045e-4});
    is_near(factors(ScheduleKind::cosine, 0.1, 0, steps), {0.0, 0.5, 1.0, 0.55, 0.1002741278414});
    is_near(factors(ScheduleKind::linear, 0.0, 0, steps), {0.0, 0.5, 1.0, 0.5, 0.0111111111111});
    is_near(factors(ScheduleKind::inverse_sqrt, 0.0, 0, steps), {0.0, 0.5, 1.0, 0.4264014327, 0.3178208631});
    is_near(factors(ScheduleKind::wsd, 0.0, 20, {80, 95, 99}), {1.0, 0.1464466094, 0.0061558297});
    is_near(factors(ScheduleKind::constant, 0.0, 0, steps), {0.0, 0.5, 1.0, 1.0, 1.0});
}

TEST_CASE("Schedule: transformers' factors at every step") {
    int cases = 0;
    for (auto const& line : golden_lines("schedules.txt")) {
        auto const kind = parse_schedule(line[0][0]);
        REQUIRE(kind);
        auto const numbers = numbers_of({line[0].begin() + 1, line[0].end()});
        Schedule const schedule{.kind = *kind,
                                .learning_rate = 1.0,
                                .warm_up = static_cast<std::int64_t>(numbers[0]),
                                .total = static_cast<std::int64_t>(numbers[1]),
                                .decay = *kind == ScheduleKind::wsd ? static_cast<std::int64_t>(numbers[2]) : 0,
                                .floor = numbers[3]};
        REQUIRE(schedule.check());
        auto const expected = numbers_of(line[1]);
        REQUIRE(static_cast<std::int64_t>(expected.size()) == schedule.total);
        for (std::int64_t step = 0; step < schedule.total; ++step) {
            // transformers' wsd alone begins its warm-up at the floor; ours begin at 0.
            if (*kind == ScheduleKind::wsd && schedule.floor > 0.0 && step < schedule.warm_up) continue;
            CHECK(std::abs(schedule.at(step) - expected[static_cast<std::size_t>(step)]) <= 4.0 / (INT64_C(1) << 52));
        }
        ++cases;
    }
    CHECK(cases == 13);
}

TEST_CASE(
    "cosine_of_half_turns: the C library's cosine within two units of 1, and exact where that is a plain number") {
    using detail::cosine_of_half_turns;
    for (int i = 0; i <= 20'000; ++i) {
        auto const x = static_cast<double>(i) / 20'000.0;
        auto const expected = static_cast<double>(std::cos(static_cast<long double>(x) * 3.14159265358979323846264L));
        CHECK(std::abs(cosine_of_half_turns(x) - expected) <= 2.0 / (INT64_C(1) << 53));
    }
    static_assert(cosine_of_half_turns(0.0) == 1.0);
    static_assert(cosine_of_half_turns(0.5) == 0.0);
    static_assert(cosine_of_half_turns(1.0) == -1.0);
    // At run time as in a constant expression, whatever the processor can fuse.
    constexpr auto numbers = [] {
        std::array<double, 200> out{};
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = cosine_of_half_turns(static_cast<double>(i) / 200.0);
        return out;
    }();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        double const volatile x = static_cast<double>(i) / 200.0;
        CHECK(cosine_of_half_turns(x) == numbers[i]);
    }
}

TEST_CASE("Schedule: after the last step the rate stays; short runs have no division by zero") {
    Schedule const cosine{.kind = ScheduleKind::cosine, .learning_rate = 2.0, .total = 10, .floor = 0.1};
    CHECK(cosine.at(10) == 0.2);
    CHECK(cosine.at(11) == 0.2);
    CHECK(cosine.at(INT64_C(1) << 40) == 0.2);
    Schedule const all_warm_up{.kind = ScheduleKind::linear, .learning_rate = 1.0, .warm_up = 4, .total = 4};
    REQUIRE(all_warm_up.check());
    CHECK(all_warm_up.at(3) == 0.75);
    CHECK(all_warm_up.at(4) == 0.0);
    Schedule const stable{.kind = ScheduleKind::wsd, .learning_rate = 1.0, .total = 5, .decay = 0};
    CHECK(stable.at(4) == 1.0);
    Schedule const root{.kind = ScheduleKind::inverse_sqrt, .learning_rate = 1.0, .floor = 0.25};
    CHECK(root.at(10'000'000) == 0.25);
}

TEST_CASE("Schedule: what makes no sense is refused by field") {
    auto const message = [](Schedule const& schedule) { return schedule.check().error().message(); };
    CHECK(message({.warm_up = 11, .total = 10}) ==
          "schedule: warm_up: takes longer than the whole run (got 11, expected at most 10)");
    CHECK(message({.kind = ScheduleKind::wsd, .warm_up = 5, .total = 10, .decay = 6}) ==
          "schedule: decay: does not fit after the warm-up (got 6, expected 0 to 5)");
    CHECK(message({.kind = ScheduleKind::linear, .total = 10, .decay = 6}) ==
          "schedule: decay: is of the schedule wsd alone (got 6, expected 0)");
    CHECK(message({.learning_rate = std::nan(""), .total = 10}) == "schedule: learning_rate: is no number from 0 on");
    CHECK(message({.total = 10, .floor = 1.5}) == "schedule: floor: is no share from 0 to 1");
    CHECK(message({.total = -1}) == "schedule: total: is negative (got -1, expected at least 0)");
    CHECK(parse_schedule("cosin").error().message() ==
          "cosin: is no schedule of the learning rate; did you mean cosine?");
    CHECK(name_of(*parse_schedule("wsd")) == "wsd");
}
