// SPDX-License-Identifier: Apache-2.0
#include <shardwise/op/head_share.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace shardwise;

TEST_CASE("head_share: equals the estimator's split wherever a piece is one head") {
    struct Heads {
        std::int64_t query;
        std::int64_t kv;
    };
    for (auto const heads : {Heads{9, 3}, Heads{32, 32}, Heads{32, 8}, Heads{8, 1}, Heads{12, 4}, Heads{5, 5}}) {
        for (std::int64_t ranks = 1; ranks <= heads.query; ++ranks) {
            for (std::int64_t rank = 0; rank < ranks; ++rank) {
                CAPTURE(ranks);
                CAPTURE(rank);
                auto const share = head_share(heads.query, heads.kv, head_pieces(heads.query, 16), ranks, rank);
                REQUIRE(share);
                CHECK(share->query == split_units(heads.query, ranks, rank));
                CHECK(share->kv == split_kv_heads(heads.query, heads.kv, ranks, rank));
                CHECK(share->group == heads.query / heads.kv);
            }
        }
    }
}

TEST_CASE("head_share: heads that share a quantised block stay together, and ranks without a piece have none") {
    auto const pieces = head_pieces(8, 64, 256);
    CHECK(*head_share(8, 2, pieces, 2, 1) == HeadShare{{4, 8}, {1, 2}, 4});
    auto const idle = head_share(8, 2, pieces, 3, 2);
    REQUIRE(idle);
    CHECK(idle->query.size() == 0);
    CHECK(idle->kv.size() == 0);
}

TEST_CASE("head_share: an impossible split says what is legal") {
    auto const too_many = head_share(9, 3, head_pieces(9, 64), 10, 0);
    CHECK(too_many.error().code() == ErrorCode::invalid_argument);
    CHECK(
        too_many.error().message() ==
        "tensor parallel: ranks: are more than the query heads, which cannot be cut (got 10, expected at most 9); use at most "
        "as many ranks as query heads; the others can serve as pipeline or data parallel ranks");
    CHECK(head_share(9, 2, head_pieces(9, 64), 2, 0).error().message().find("multiple of the key-value heads") !=
          std::string::npos);
    CHECK(head_share(8, 2, head_pieces(8, 64), 2, 2).error().message() ==
          "tensor parallel: rank: is no rank of the group (got 2, expected 0 to 1)");
    CHECK(head_share(8, 2, head_pieces(8, 64), 0, 0).error().message() ==
          "tensor parallel: ranks: are less than one (got 0, expected at least 1)");
    CHECK(head_share(8, 2, block_pieces(8 * 64), 3, 0).error().message().find("cut a head") != std::string::npos);
    CHECK(head_share(8, 2, head_pieces(7, 65), 2, 0).error().message().find("whole heads") != std::string::npos);
}
