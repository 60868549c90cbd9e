// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/split.hpp>

#include <doctest/doctest.h>

namespace {

using namespace shardwise;

TEST_CASE("split_units: shares are consecutive, cover everything and differ by at most one") {
    for (std::int64_t units = 0; units <= 40; ++units) {
        for (std::int64_t ranks = 1; ranks <= 9; ++ranks) {
            std::int64_t next = 0;
            for (std::int64_t rank = 0; rank < ranks; ++rank) {
                auto const share = split_units(units, ranks, rank);
                CHECK(share.begin == next);
                next = share.end;
                CHECK(share.size() >= units / ranks);
                CHECK(share.size() <= units / ranks + 1);
            }
            CHECK(next == units);
        }
    }
}

TEST_CASE("split_kv_heads: a rank holds the key-value head of each of its query heads and no other") {
    struct Heads {
        std::int64_t query;
        std::int64_t kv;
    };
    for (auto const [heads, kv_heads] : {Heads{9, 3}, Heads{32, 8}, Heads{8, 1}, Heads{6, 6}}) {
        for (std::int64_t ranks = 1; ranks <= heads; ++ranks) {
            for (std::int64_t rank = 0; rank < ranks; ++rank) {
                auto const query = split_units(heads, ranks, rank);
                auto const kv = split_kv_heads(heads, kv_heads, ranks, rank);
                for (std::int64_t head = 0; head < heads; ++head) {
                    bool const is_mine = head >= query.begin && head < query.end;
                    auto const group = head / (heads / kv_heads);
                    if (is_mine) CHECK((group >= kv.begin && group < kv.end));
                }
                CHECK(kv.size() <= query.size());
                CHECK(kv.size() >= 1);
            }
        }
    }
}

}  // namespace
