// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/loss_scaler.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("LossScaler: the published scales after each step") {
    // Interval 3, bad steps 3, 6, 7 of 0 to 13, by torch.amp.GradScaler's rule; its own run: scaler.txt.
    auto scaler = LossScaler::create({.interval = 3});
    REQUIRE(scaler);
    double const expected[] = {64, 64, 128, 64, 64, 64, 32, 16, 16, 16, 32, 32, 32, 64};
    for (int step = 0; step < 14; ++step) {
        scaler->update(step == 3 || step == 6 || step == 7);
        CHECK(scaler->scale() == 1024.0 * expected[step]);
    }
}

TEST_CASE("LossScaler: torch's scales, also where growth would be infinite") {
    for (auto const& line : golden_lines("scaler.txt")) {
        auto const settings = numbers_of(line[0]);
        auto scaler = LossScaler::create({.initial = settings[1], .interval = static_cast<std::int64_t>(settings[0])});
        REQUIRE(scaler);
        auto const expected = numbers_of(line[1]);
        for (std::size_t step = 0; step < expected.size(); ++step) {
            scaler->update(settings[2 + step] != 0.0);
            CHECK(scaler->scale() == expected[step]);
        }
    }
}

TEST_CASE("LossScaler: goes on from its two numbers, and refuses others") {
    LossScalerOptions const options{.interval = 4};
    auto whole = LossScaler::create(options);
    for (int step = 0; step < 20; ++step) {
        auto resumed = LossScaler::resume(options, whole->scale(), whole->good_steps());
        REQUIRE(resumed);
        resumed->update(step % 7 == 5);
        whole->update(step % 7 == 5);
        CHECK(resumed->scale() == whole->scale());
        CHECK(resumed->good_steps() == whole->good_steps());
    }
    CHECK_FALSE(LossScaler::resume(options, 0.0, 0));
    CHECK_FALSE(LossScaler::resume(options, 1e300, 0));
    CHECK_FALSE(LossScaler::resume(options, 2.0, 4));
    CHECK_FALSE(LossScaler::create({.growth = 1.0}));
    CHECK_FALSE(LossScaler::create({.backoff = 1.0}));
    CHECK_FALSE(LossScaler::create({.interval = 0}));
    // A scale of 0 would make every gradient 0, and hide that it was infinite.
    auto smallest = LossScaler::create({.initial = 1.1754943508222875e-38});
    smallest->update(true);
    CHECK(smallest->scale() == 1.1754943508222875e-38);
}
