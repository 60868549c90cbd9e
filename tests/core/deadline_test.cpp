// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/deadline.hpp>

#include <doctest/doctest.h>

#include <chrono>

using namespace shardwise;
using namespace std::chrono_literals;

TEST_CASE("Deadline: passes when its time is over, and not before") {
    CHECK(Deadline::after(0s).has_passed());
    CHECK(Deadline::after(-1s).has_passed());
    CHECK(Deadline::after(0s).left() == 0ns);
    auto const later = Deadline::after(1h);
    CHECK_FALSE(later.has_passed());
    CHECK(later.left() <= 1h);
    CHECK(later.left() > 50min);
}

TEST_CASE("Deadline: the longest time there is lies ahead, not behind") {
    for (auto const time : {std::chrono::nanoseconds::max(), std::chrono::nanoseconds::max() - 1h}) {
        auto const deadline = Deadline::after(time);
        CHECK_FALSE(deadline.has_passed());
        CHECK(deadline.left() > 24h * 365 * 200);
    }
    CHECK(Deadline::after(std::chrono::nanoseconds::min()).has_passed());
    CHECK(Deadline::after(std::chrono::nanoseconds::min()).left() == 0ns);
}
