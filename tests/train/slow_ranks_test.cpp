// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/slow_ranks.hpp>

#include <doctest/doctest.h>

#include "ranks.hpp"

#include <cstdint>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE(
    "SlowRanks: a rank behind twice the median in each of ten steps is named to all, one that was so in nine is not") {
    for (std::int32_t const ranks : {1, 2, 3, 4}) {
        CAPTURE(ranks);
        auto const found = on_threads(ranks, [&](Threads& comm) -> std::vector<std::int32_t> {
            SlowRanks watch;
            std::vector<std::int32_t> out;
            // The last one is slow in steps 11 to 40 but for one.
            for (int step = 1; step <= 40; ++step) {
                bool const is_behind = comm.rank() == ranks - 1 && step > 10 && step != 35;
                auto const slow = watch.take(comm, is_behind ? 0.0021 : 0.001);
                REQUIRE(slow);
                for (auto const rank : *slow) out.push_back(100 * step + rank);
            }
            return out;
        });
        std::vector<std::int32_t> expected;
        if (ranks > 1) expected = {2000 + ranks - 1, 3000 + ranks - 1};
        for (auto const& one : found) CHECK(one == expected);
    }
}
