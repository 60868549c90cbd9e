// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/routing_table.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace shardwise;

TEST_CASE("routing table: rows stand by expert and then by token, in either direction") {
    std::vector<std::int32_t> const ids{2, 0, 0, 3, 2, 3, 3, 0};
    TensorView<std::int32_t const, 2, Host> const view(ids.data(), {4, 2});
    std::vector<std::int32_t> memory(8 + 5 + 1, -7);
    auto const by_row = make_routing_table(view, 5, RoutingOrder::token_of_row, memory.data());
    CHECK(std::vector<std::int32_t>(by_row.order.begin(), by_row.order.end()) ==
          std::vector<std::int32_t>{0, 1, 3, 0, 2, 1, 2, 3});
    CHECK(std::vector<std::int32_t>(by_row.first.begin(), by_row.first.end()) ==
          std::vector<std::int32_t>{0, 3, 3, 5, 8, 8});
    auto const by_pair = make_routing_table(view, 5, RoutingOrder::row_of_pair, memory.data());
    CHECK(std::vector<std::int32_t>(by_pair.order.begin(), by_pair.order.end()) ==
          std::vector<std::int32_t>{3, 0, 1, 5, 4, 6, 7, 2});
}

TEST_CASE("routing table: no tokens, no rows") {
    std::vector<std::int32_t> memory(4, -7);
    auto const table = make_routing_table({memory.data(), {0, 2}}, 3, RoutingOrder::token_of_row, memory.data());
    CHECK(table.order.empty());
    CHECK(memory == std::vector<std::int32_t>(4, 0));
}
