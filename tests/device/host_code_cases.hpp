// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include "host_code.hpp"

#include <string>

TEST_CASE("Device compilers: a plan, a sum over ranks and a layer come out as the host's compilers have them") {
    auto const found = shardwise::testing::run_host_code();
    INFO(std::string(found ? "" : found.error().message()));
    REQUIRE(found);
    CHECK(found->load == doctest::Approx(0.894).epsilon(0.001));
    CHECK(found->load == doctest::Approx(found->lower_bound));
    CHECK(found->has_same_devices);
    CHECK(found->sum == 3.0F);
    CHECK(found->out == 654.0F);
}
