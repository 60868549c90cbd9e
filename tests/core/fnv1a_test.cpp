// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/fnv1a.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

// The vectors of draft-eastlake-fnv, 64 bits.
TEST_CASE("fnv1a: gives the published numbers") {
    static_assert(detail::fnv1a("") == 0xCBF2'9CE4'8422'2325U);
    CHECK(detail::fnv1a("a") == 0xAF63'DC4C'8601'EC8CU);
    CHECK(detail::fnv1a("foobar") == 0x8594'4171'F739'67E8U);
    // Bytes are unsigned.
    CHECK(detail::fnv1a("\xFF") == detail::fnv1a_step(detail::fnv1a_start, 255));
}
