// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/comm/traffic.hpp>
#include <shardwise/cost/collective.hpp>

#include <doctest/doctest.h>

#include "collective_cases.hpp"

#include <cstdint>

using namespace shardwise;

namespace {

constexpr Efficiency whole{.link = 1.0};

/// Ranks that share memory, where every byte takes a second, or every message: the cost model then counts them.
RankGroup by_bytes(std::int64_t ranks) {
    return RankGroup::in_node(ranks, {LinkType::memory_bus, 1.0, 0.0});
}
RankGroup by_messages(std::int64_t ranks) {
    return RankGroup::in_node(ranks, {LinkType::memory_bus, 0.0, 1.0});
}

}  // namespace

TEST_CASE("Traffic: a rank takes the bytes and the messages that the plan's cost model counts, whatever the ranks") {
    for (std::int32_t const ranks : {1, 2, 3, 4, 5, 8}) {
        CAPTURE(ranks);
        auto const counted =
            run_threads(ranks, [](Threads& comm) -> Result<> { return shardwise::testing::check_loads(comm); });
        if (!counted) CAPTURE(counted.error().message());
        CHECK(counted);
        for (double const bytes : {4.0, 65536.0, 65540.0, 1e7}) {
            CAPTURE(bytes);
            auto const check = [&](CollectiveLoad const& load, auto const& seconds) {
                CHECK(seconds(by_bytes(ranks)) == doctest::Approx(load.bytes).epsilon(1e-12));
                CHECK(seconds(by_messages(ranks)) == load.messages);
            };
            check(all_reduce_load(bytes, ranks),
                  [&](RankGroup const& group) { return all_reduce_seconds(bytes, group, whole); });
            check(gather_load(bytes, ranks, Reach::at_once),
                  [&](RankGroup const& group) { return all_gather_seconds(bytes, group, whole); });
            check(gather_load(bytes, ranks, Reach::at_once),
                  [&](RankGroup const& group) { return dispatch_seconds(bytes, 1, group, whole); });
        }
        CHECK(send_seconds(100.0, by_bytes(2).link, whole) == 100.0);
        CHECK(send_seconds(100.0, by_messages(2).link, whole) == 1.0);
    }
}

TEST_CASE("Traffic: clear begins anew, and the total is that of all kinds") {
    Traffic traffic;
    traffic.begin(CollectiveKind::all_reduce);
    traffic.take(CollectiveKind::all_reduce, 2, 100);
    traffic.begin(CollectiveKind::barrier);
    CHECK(traffic.total() == CollectiveTraffic{2, 2, 100});
    traffic.clear();
    CHECK(traffic.total() == CollectiveTraffic{});
}
