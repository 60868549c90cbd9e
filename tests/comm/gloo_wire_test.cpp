// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/detail/gloo_wire.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <gloo/config.h>
#include <stdexcept>

using namespace shardwise;

TEST_CASE("Gloo: a message that comes between an interrupted wait and the end of its connection has come") {
    auto const soon = Deadline::after(std::chrono::seconds(1));
    int waits = 0;
    // The message comes after so many waits.
    auto const coming_behind = [&](int count) {
        waits = 0;
        return [&waits, count](Deadline const&) { return waits++ >= count; };
    };
    auto const open = [] {};
    auto const closed = [] { throw std::runtime_error("closed"); };
    CHECK(detail::comes_before_break(coming_behind(0), closed, soon));
    CHECK(waits == 1);
    CHECK_FALSE(detail::comes_before_break(coming_behind(1), open, soon));
    CHECK(waits == 1);
    CHECK(detail::comes_before_break(coming_behind(1), closed, soon));
    CHECK(waits == 2);
    CHECK_THROWS_WITH(static_cast<void>(detail::comes_before_break(coming_behind(2), closed, soon)), "closed");
}
