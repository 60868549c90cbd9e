// SPDX-License-Identifier: Apache-2.0
#include <shardwise/monitor/counter_track.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace shardwise;

namespace {

double total(std::uint64_t range, std::initializer_list<std::uint64_t> values) {
    CounterTrack track;
    for (auto const value : values) track.advance(value, range);
    return track.total();
}

}  // namespace

TEST_CASE("CounterTrack: counts from the first value on") {
    CHECK(total(0, {}) == 0.0);
    CHECK(total(0, {1000}) == 0.0);
    CHECK(total(0, {1000, 1000, 1500, 1700}) == 700.0);
}

TEST_CASE("CounterTrack: a counter of 32 bits that wraps goes on") {
    CHECK(total(std::uint64_t{1} << 32U, {4294967290, 4}) == 10.0);
    CHECK(total(std::uint64_t{1} << 32U, {4294967290, 4, 104}) == 110.0);
    // RAPL of a Xeon: max_energy_range_uj 262143328850, whose next value is 0.
    CHECK(total(262143328851, {262143328850, 99}) == 100.0);
}

TEST_CASE("CounterTrack: a counter that was reset has counted from 0 since") {
    // Falls from the middle of its range: no wrap would be so short.
    CHECK(total(std::uint64_t{1} << 32U, {2000000000, 7}) == 7.0);
    // Endless counters only fall by a reset.
    CHECK(total(0, {5000, 20, 30}) == 30.0);
}
