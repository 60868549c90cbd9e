// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/shard_rule.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

TEST_CASE("ShardRule: experts of a stacked tensor keep the rule of one") {
    auto const rule = ShardRule::units(2, 8).stacked(4);
    CHECK(rule.kind == ShardKind::units);
    CHECK(rule.dim == 2);
    CHECK(rule.experts == 4);
    CHECK(!(rule == ShardRule::units(2, 8)));
    CHECK(ShardRule::packed(0, 2, 5).heads == 2);
    CHECK(ShardRule{}.kind == ShardKind::replicated);
}
