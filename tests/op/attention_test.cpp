// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "fixtures.hpp"

using namespace shardwise;

namespace {

/// Pairs counted one by one.
double counted_pairs(AttentionShape const& shape, Step const& step) {
    double pairs = 0.0;
    for (std::int64_t query = step.context - step.new_tokens; query < step.context; ++query) {
        for (std::int64_t key = 0; key < step.context; ++key) {
            bool const is_past = key <= query;
            bool const is_near = shape.window == 0 || !step.is_windowed || key > query - shape.window;
            if ((!shape.is_causal || shape.is_cross) || (is_past && is_near)) pairs += 1.0;
        }
    }
    return pairs;
}

/// Elements that a token takes on a rank.
std::int64_t elements_of(AttentionShape const& shape, bool is_latent_cached, std::int64_t tp, std::int64_t rank) {
    auto const kept = kept_heads({.kind = OpKind::attention, .details = shape}, is_latent_cached);
    return kept.heads(tp, rank) * (kept.key + kept.value);
}

AttentionShape const four_heads{.heads = 4, .kv_heads = 2, .key_dim = 2, .value_dim = 2};

}  // namespace

TEST_CASE("attention: pairs of queries and visible keys equal the pairs counted one by one") {
    for (std::int64_t context = 1; context <= 9; ++context) {
        for (std::int64_t fresh = 1; fresh <= context; ++fresh) {
            for (std::int64_t window = 0; window <= 10; ++window) {
                for (bool const is_causal : {true, false}) {
                    // A window without causality does not occur; its pairs are those of the whole context.
                    AttentionShape const shape{.window = is_causal ? window : 0, .is_causal = is_causal};
                    Step const step{.new_tokens = fresh, .context = context};
                    REQUIRE(visible_pairs(shape, step) == counted_pairs(shape, step));
                }
            }
        }
    }
}

TEST_CASE("attention: a full cache of a window layer still attends to the window only when told so") {
    AttentionShape const shape{.window = 4};
    Step step{.new_tokens = 8, .context = 8};
    CHECK(visible_pairs(shape, step) == 1 + 2 + 3 + 4 * 5);
    step.is_windowed = false;
    CHECK(visible_pairs(shape, step) == 36);
}

TEST_CASE("attention: a score and a value product for each pair and head, and five operations of softmax") {
    Operation const op{.kind = OpKind::attention, .inputs = {1, 2, 2, no_value}, .output = 1, .details = four_heads};
    // Two sequences; queries 3, 4, 5 of 5 see 3 + 4 + 5 keys.
    CHECK(op_work(op, op_test::context()).flops == 2.0 * 12 * 4 * (2 * (2 + 2) + 5));
    CHECK(op_work(op, op_test::context()).workspace == Bytes{6 * 4 * 8});
    CHECK(op_work(op, op_test::context({.tp = 2})).flops == 2.0 * 12 * 2 * (2 * (2 + 2) + 5));
}

TEST_CASE("attention: decoding reads the past once, prefill writes what it makes") {
    Operation const op{.kind = OpKind::attention, .inputs = {1, 2, 2, no_value}, .output = 1, .details = four_heads};
    auto c = op_test::context();
    c.step = {.batch = 2, .new_tokens = 1, .context = 100};
    CHECK(op_work(op, c).kv_read == 2.0 * 99 * 2 * (2 + 2) * 2);
    c.step.new_tokens = 100;
    CHECK(op_work(op, c).kv_read == 0.0);
}

TEST_CASE("attention: a windowed layer reads no more than its window") {
    auto shape = four_heads;
    shape.window = 10;
    Operation const op{.kind = OpKind::attention, .inputs = {1, 2, 2, no_value}, .output = 1, .details = shape};
    auto c = op_test::context();
    c.step = {.batch = 1, .new_tokens = 1, .context = 100};
    CHECK(op_work(op, c).kv_read == 10.0 * 2 * (2 + 2) * 2);
}

TEST_CASE("attention: the latent of MLA is cached whole on every rank") {
    AttentionShape const mla{.heads = 128, .kv_heads = 128, .key_dim = 192, .value_dim = 128, .latent = 576};
    CHECK(elements_of(mla, true, 1, 0) == 576);
    CHECK(elements_of(mla, true, 8, 3) == 576);
    CHECK(elements_of(mla, false, 1, 0) == 128 * 320);
    CHECK(elements_of(mla, false, 8, 3) == 16 * 320);
}

TEST_CASE("attention: bidirectional attention has no cache, cross-attention has one") {
    auto shape = four_heads;
    shape.is_causal = false;
    CHECK(elements_of(shape, true, 1, 0) == 0);
    shape.is_cross = true;
    CHECK(elements_of(shape, true, 1, 0) == 2 * 4);
}
