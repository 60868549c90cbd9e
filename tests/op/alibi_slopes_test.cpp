// SPDX-License-Identifier: Apache-2.0
#include <shardwise/op/alibi_slopes.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

using namespace shardwise;

TEST_CASE("alibi_slopes: powers of one base, and every second one of its root for heads beyond a power of two") {
    auto const eight = alibi_slopes(8);
    for (std::size_t i = 0; i < 8; ++i) CHECK(eight[i] == doctest::Approx(std::exp2(-static_cast<double>(i + 1))));
    auto const six = alibi_slopes(6);
    REQUIRE(six.size() == 6);
    CHECK(six[3] == doctest::Approx(std::exp2(-8.0)));
    CHECK(six[4] == doctest::Approx(std::exp2(-1.0)));
    CHECK(six[5] == doctest::Approx(std::exp2(-3.0)));
    CHECK(alibi_slopes(0).empty());
}
