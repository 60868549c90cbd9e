// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/shard.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

namespace {

std::int64_t extent(Tensor const& tensor, std::size_t dimension, std::int64_t tp, std::int64_t rank) {
    return shard_of(tensor, {.tp = tp}, {.tp = rank}).extent(dimension);
}

Tensor weight(Shape const& shape, ShardRule const& rule) { return {.name = "weight", .shape = shape, .shard = rule}; }

}  // namespace

TEST_CASE("shard: units are sharded evenly, the first ranks hold one more") {
    auto const q = weight({5 * 16, 100}, ShardRule::units(0, 5));
    CHECK(extent(q, 0, 2, 0) == 48);
    CHECK(extent(q, 0, 2, 1) == 32);
    CHECK(extent(q, 1, 2, 1) == 100);
    auto const o = weight({100, 5 * 16}, ShardRule::units(1, 5));
    CHECK(extent(o, 1, 3, 0) == 32);
    CHECK(extent(o, 1, 3, 2) == 16);
}

TEST_CASE("shard: a replicated tensor is whole everywhere") {
    auto const norm = weight({100}, {});
    CHECK(extent(norm, 0, 4, 3) == 100);
}

TEST_CASE("shard: key-value heads are replicated where ranks exceed them, and follow cut groups") {
    // Llama-3-8B: 32 query heads, 8 key-value heads of 128.
    auto const k = weight({8 * 128, 4096}, ShardRule::kv(0, 8, 32));
    CHECK(extent(k, 0, 8, 0) == 128);
    CHECK(extent(k, 0, 16, 5) == 128);
    CHECK(extent(k, 0, 32, 31) == 128);
    // 3 ranks: query heads 0-10, 11-21, 22-31 read key heads 0-2, 2-5, 5-7.
    CHECK(extent(k, 0, 3, 0) == 3 * 128);
    CHECK(extent(k, 0, 3, 1) == 4 * 128);
    CHECK(extent(k, 0, 3, 2) == 3 * 128);
}

TEST_CASE("shard: a packed projection holds its query heads and their key-value heads") {
    // Falcon-40B: 128 query heads, 8 key-value heads of 64.
    auto const qkv = weight({(128 + 16) * 64, 8192}, ShardRule::qkv(0, 128, 8));
    CHECK(extent(qkv, 0, 1, 0) == (128 + 16) * 64);
    CHECK(extent(qkv, 0, 8, 0) == (16 + 2) * 64);
    CHECK(extent(qkv, 0, 16, 15) == (8 + 2) * 64);
    auto const grouped = weight({(128 + 16) * 64, 8192}, ShardRule::grouped_qkv(0, 128, 8));
    CHECK(extent(grouped, 0, 8, 7) == (16 + 2) * 64);
}

TEST_CASE("shard: parts packed in turn are each sharded") {
    // Phi-3: gate and up of 8192 columns.
    auto const gate_up = weight({2 * 8192, 3072}, ShardRule::packed(0, 2, 8192));
    CHECK(extent(gate_up, 0, 3, 0) == 2 * 2731);
    CHECK(extent(gate_up, 0, 3, 2) == 2 * 2730);
}

TEST_CASE("shard: stacked experts are sharded over expert-parallel ranks, each expert to tensor-parallel ones") {
    auto const stacked = weight({32, 2880, 2 * 2880}, ShardRule::units(2, 2880).stacked(32));
    auto const share = shard_of(stacked, {.tp = 2, .ep = 3}, {.tp = 1, .ep = 0});
    CHECK(share.shape() == Shape{11, 2880, 2880});
    CHECK(shard_of(stacked, {.ep = 3}, {.ep = 2}).shape() == Shape{10, 2880, 5760});
}

TEST_CASE("shard: shares of every sharded kind add up to the whole where nothing is replicated") {
    for (auto const& rule : {ShardRule::units(0, 12), ShardRule::packed(0, 2, 6), ShardRule::kv(0, 12, 12)}) {
        auto const tensor = weight({24, 5}, rule);
        for (std::int64_t tp = 1; tp <= 12; ++tp) {
            std::int64_t sum = 0;
            for (std::int64_t rank = 0; rank < tp; ++rank) sum += extent(tensor, 0, tp, rank);
            if (rule.kind == ShardKind::packed_parts && tp > 6) continue;
            REQUIRE(sum == 24);
        }
    }
}
