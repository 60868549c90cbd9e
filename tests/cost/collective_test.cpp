// SPDX-License-Identifier: Apache-2.0
#include <shardwise/cost/collective.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace shardwise;

namespace {

/// Equal but for rounding, however small: seconds are.
doctest::Approx near(double value) {
    return doctest::Approx(value).scale(0.0);
}

/// A link that collectives use whole: 100 bytes a second, a second's latency.
constexpr Link link{LinkType::nvlink, 100.0, 1.0};
constexpr Link network{LinkType::infiniband, 10.0, 5.0};
constexpr Efficiency perfect{.link = 1.0};

}  // namespace

TEST_CASE("collectives: a rank alone sends nothing") {
    RankGroup const alone{};
    CHECK(all_gather_seconds(1e9, alone) == 0.0);
    CHECK(all_reduce_seconds(1e9, alone) == 0.0);
    CHECK(dispatch_seconds(1e9, 2, alone) == 0.0);
}

// Thakur, Rabenseifner and Gropp, 2005: recursive doubling takes log p rounds and (p - 1) / p of the bytes
TEST_CASE("collectives: gathers double, reductions halve and double") {
    auto const eight = RankGroup::in_node(8, link);
    CHECK(all_gather_seconds(800.0, eight, perfect) == near(3.0 + 7.0));
    CHECK(all_reduce_seconds(800.0, eight, perfect) == near(2.0 * (3.0 + 7.0)));
    CHECK(all_gather_seconds(600.0, RankGroup::in_node(6, link), perfect) == near(3.0 + 5.0));
}

TEST_CASE("collectives: a short reduction goes directly, in one round") {
    auto const eight = RankGroup::in_node(8, link);
    CHECK(all_reduce_seconds(10.0, eight, perfect) == near(1.0 + 0.7));
    CHECK(all_reduce_seconds(0.0, eight, perfect) == near(1.0));
}

TEST_CASE("collectives: over nodes each rank carries its part") {
    // Two nodes of four: in a node 300 of 400 bytes in two rounds, between nodes 100 bytes over the network.
    RankGroup const group{8, 4, link, network};
    CHECK(group.nodes() == 2);
    auto const inside = 2.0 + 3.0;
    CHECK(all_gather_seconds(400.0, group, perfect) == near(inside + 5.0 + 5.0));
    CHECK(all_reduce_seconds(400.0, group, perfect) == near(2.0 * inside + 5.0 + 10.0));
    RankGroup const scattered{4, 1, {}, network};
    CHECK(all_gather_seconds(40.0, scattered, perfect) == near(10.0 + 3.0));
}

TEST_CASE("collectives: every copy of a row goes to its rank, but only once to its node") {
    CHECK(dispatch_seconds(400.0, 2, RankGroup::in_node(8, link), perfect) == near(1.0 + 7.0));
    // Two nodes of four: 3/4 of 800 bytes in the node. Of two copies one reaches a given node by 3/4, so that 2 * 3/4
    // copies are made, half of them for the other node: 300 bytes by the network, which takes longer.
    CHECK(dispatch_seconds(400.0, 2, {8, 4, link, network}, perfect) == near(5.0 + 30.0));
    auto fast = network;
    fast.bandwidth = 1e9;
    fast.latency = 0.0;
    CHECK(dispatch_seconds(400.0, 2, {8, 4, link, fast}, perfect) == near(1.0 + 6.0));
    // One copy to each of four lone ranks' nodes: three quarters leave.
    CHECK(dispatch_seconds(400.0, 1, {4, 1, {}, network}, perfect) == near(10.0 + 30.0));
}

TEST_CASE("collectives: an infinity fabric has a link for every peer") {
    constexpr Link fabric{LinkType::infinity_fabric, 100.0, 1.0};
    CHECK(all_gather_seconds(800.0, RankGroup::in_node(8, fabric), perfect) == near(3.0 + 1.0));
    CHECK(send_seconds(100.0, fabric, perfect) == near(2.0));
}

TEST_CASE("collectives: ranks that share memory see all others at once, and sum as the communicators do") {
    constexpr Link memory{LinkType::memory_bus, 100.0, 1.0};
    auto const eight = RankGroup::in_node(8, memory);
    CHECK(all_gather_seconds(800.0, eight, perfect) == near(1.0 + 7.0));
    // Every rank takes seven times 64 KiB; of more, seven eighths twice.
    CHECK(all_reduce_seconds(65536.0, eight, perfect) == near(1.0 + 7.0 * 655.36));
    CHECK(all_reduce_seconds(80000.0, eight, perfect) == near(2.0 + 2.0 * 700.0));
    CHECK(all_reduce_seconds(80000.0, RankGroup::in_node(2, memory), perfect) == near(1.0 + 800.0));
    CHECK(dispatch_seconds(400.0, 2, eight, perfect) == near(1.0 + 7.0));
}

TEST_CASE("collectives: a message takes the latency and its bytes at the share of the link that programs reach") {
    CHECK(send_seconds(50.0, link, perfect) == near(1.5));
    CHECK(send_seconds(50.0, link, {.link = 0.5}) == near(2.0));
}

TEST_CASE("collectives: more bandwidth, less latency and fewer bytes are never slower") {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> scale(1.0, 3.0);
    std::uniform_int_distribution<std::int64_t> exponent(0, 5);
    for (int round = 0; round < 200; ++round) {
        auto const ranks = std::int64_t{1} << exponent(random);
        auto const per_node = std::min<std::int64_t>(ranks, std::int64_t{1} << exponent(random));
        auto const bytes = 1e3 * scale(random) * static_cast<double>(ranks);
        RankGroup const group{ranks, per_node, link, network};
        auto better = group;
        better.link.bandwidth *= scale(random);
        better.network.bandwidth *= scale(random);
        better.network.latency /= scale(random);
        auto const dispatch = [](double sent, RankGroup const& to, Efficiency const& efficiency) {
            return dispatch_seconds(sent, 3, to, efficiency);
        };
        CHECK(dispatch(bytes, better, perfect) <= dispatch(bytes, group, perfect));
        for (auto const collective : {all_gather_seconds, all_reduce_seconds}) {
            CHECK(collective(bytes, better, perfect) <= collective(bytes, group, perfect));
            CHECK(collective(bytes / scale(random), group, perfect) <= collective(bytes, group, perfect));
        }
    }
}

TEST_CASE("rank groups: joined, they are all ranks that either reaches") {
    auto const inner = RankGroup::in_node(2, link);
    RankGroup const outer{8, 4, link, network};
    auto const all = joined(inner, outer);
    CHECK(all.ranks == 16);
    CHECK(all.per_node == 8);
    CHECK(all.nodes() == 2);
    CHECK(joined({}, outer) == outer);
    CHECK(joined(inner, {}) == inner);
    // A group that leaves its node has neighbours in it only by itself.
    CHECK(joined(outer, inner).per_node == 4);
}
