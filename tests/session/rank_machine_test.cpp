// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/device_kernels.hpp>
#include <shardwise/session/rank_machine.hpp>

#include <doctest/doctest.h>

#include "../device/fake_vendor.hpp"

#include <string>

using namespace shardwise;

TEST_CASE("RankMachine: a device refuses to round what products multiply, by the option, before it is opened") {
    RunOptions options;
    options.devices.numbers = {0};
    detail::RankMachine<testing::Fake> machine({.threads = 1});
    options.product_activations = ProductActivations::int8;
    auto const refused = machine.open(options, 0);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::unsupported);
    CHECK(refused.error().message() == "fake: product_activations: multiplies activations as they are; leave it out");
    CHECK(testing::FakeMachine::get().is_empty());
}
