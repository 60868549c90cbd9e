// SPDX-License-Identifier: Apache-2.0
#include "fixtures.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace shardwise;
using op_test::context;
using op_test::values;

TEST_CASE("OpContext: a value takes its rows times its columns in the step's type") {
    auto const c = context();
    CHECK(c.bytes(0) == Bytes{6 * 8 * 2});
    CHECK(c.bytes(6) == Bytes{2 * 8 * 2});
    CHECK(c.bytes(7) == Bytes{6 * 16 * 2});
}

TEST_CASE("OpContext: fp32 values keep 32 bits whatever the step's type") {
    auto c = context();
    CHECK(c.bytes(4) == Bytes{6 * 6 * 4});
    c.step.dtype = Dtype::f32;
    CHECK(c.bytes(0) == Bytes{6 * 8 * 4});
    CHECK(c.bytes(4) == Bytes{6 * 6 * 4});
}

TEST_CASE("OpContext: routed rows are tokens times chosen experts, not tokens times experts") {
    auto const c = context();
    CHECK(c.routed_rows() == 6 * 2);
    CHECK(c.bytes(5) == Bytes{12 * 10 * 2});
}

TEST_CASE(
    "OpContext: an expert-parallel rank with fewer experts than a token chooses gets no more rows than it has "
    "experts") {
    CHECK(context({.ep = 2}).routed_rows() == 12);
    CHECK(context({.ep = 6}).routed_rows() == 6);
    CHECK(context({.ep = 4, .ep_rank = 0}).local_experts() == 2);
    CHECK(context({.ep = 4, .ep_rank = 3}).local_experts() == 1);
    CHECK(context({.ep = 4, .ep_rank = 3}).routed_rows() == 6);
}

TEST_CASE("OpContext: heads are sharded over tensor-parallel ranks, the first ranks hold one more") {
    CHECK(context({.tp = 3, .tp_rank = 0}).columns(1) == 4);
    CHECK(context({.tp = 3, .tp_rank = 1}).columns(1) == 2);
    CHECK(context({.tp = 3, .tp_rank = 2}).columns(1) == 2);
}

TEST_CASE("OpContext: key-value heads are held by every rank whose query heads they serve") {
    // 3 ranks hold query heads {0,1}, {2}, {3}; key head 0 serves 0 and 1, key head 1 serves 2 and 3.
    CHECK(context({.tp = 3, .tp_rank = 0}).columns(2) == 2);
    CHECK(context({.tp = 3, .tp_rank = 1}).columns(2) == 2);
    CHECK(context({.tp = 4, .tp_rank = 3}).columns(2) == 2);
    CHECK(context({.tp = 2, .tp_rank = 1}).columns(2) == 2);
}

TEST_CASE("OpContext: a packed value holds its query heads and both kinds of key-value heads") {
    CHECK(context().columns(7) == 16);
    CHECK(context({.tp = 2}).columns(7) == 2 * (2 + 2 * 1));
    CHECK(context({.tp = 4}).columns(7) == 2 * (1 + 2 * 1));
}

TEST_CASE("OpContext: units that stay together go to one rank, with the key-value heads that they read") {
    std::vector<UnitGrain> grains(values.size());
    grains[1] = grains[2] = {2, 2};
    auto c = context({.tp = 2, .tp_rank = 1});
    c.grains = {grains.data(), grains.size()};
    CHECK(c.columns(1) == 4);
    CHECK(c.columns(2) == 2);
    grains[1] = grains[2] = {3, 2};
    CHECK(c.columns(1) == 2);
    CHECK(c.columns(2) == 2);
    CHECK(c.share(4, 1) == 1);
    CHECK(c.share(4, 7) == 2);
    c.rank.tp_rank = 0;
    CHECK(c.columns(1) == 6);
    CHECK(c.columns(2) == 4);
}

TEST_CASE("OpContext: partial sums and replicated values are whole on every rank") {
    auto const c = context({.tp = 2, .tp_rank = 1});
    CHECK(c.columns(0) == 8);
    CHECK(c.columns(3) == 8);
}

TEST_CASE("OpContext: sequence parallelism shards the rows of replicated values only") {
    auto const c = context({.tp = 4, .tp_rank = 0, .is_sequence_parallel = true});
    CHECK(c.rows(values[0]) == 2);
    CHECK(context({.tp = 4, .tp_rank = 3, .is_sequence_parallel = true}).rows(values[0]) == 1);
    CHECK(c.rows(values[3]) == 6);
    CHECK(c.rows(values[1]) == 6);
}

TEST_CASE("OpContext: training scores every token, but a pooler still takes one row of each sequence") {
    auto c = context();
    c.step.is_training = true;
    CHECK(c.rows(values[6]) == 6);
    c.is_pooled = true;
    CHECK(c.rows(values[6]) == 2);
}
