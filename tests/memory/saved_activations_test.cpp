// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/saved_activations.hpp>
#include <shardwise/model/body_builder.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

namespace {

/// A layer of hidden size 64 with 4 heads of 16: norm, q, k, v, attention, out, residual.
BlockBody small_layer() {
    BodyBuilder body(64);
    auto const normed = body.norm(body.input(), NormKind::rms, "norm.weight");
    AttentionShape const shape{.heads = 4, .kv_heads = 4, .key_dim = 16, .value_dim = 16};
    auto const q = body.linear(normed, "q", "q", 64, LinearSplit::column(4));
    auto const k = body.linear(normed, "k", "k", 64, LinearSplit::column(4));
    auto const v = body.linear(normed, "v", "v", 64, LinearSplit::column(4));
    auto const attended = body.attention(body.rope(q, shape), body.rope(k, shape), v, shape);
    auto const out = body.linear(attended, "out", "o", 64, LinearSplit::row());
    (void)body.add(body.input(), out);
    return std::move(body).finish();
}

std::int64_t saved(Recompute recompute, OpRank const& rank = {}) {
    auto const body = small_layer();
    auto const context = op_context(body, {.batch = 2, .new_tokens = 8, .context = 8, .is_training = true}, rank);
    return saved_activations(body, context, recompute).count();
}

}  // namespace

TEST_CASE("saved activations: what gradients read is kept once: input, normed, q, k, v, attention") {
    auto const values = 6 * 16 * 64 * 2;
    auto const sums = 16 * 4 * 8;  // the softmax's maximum and sum of each query and head
    CHECK(saved(Recompute::selective) == values + sums);
    // Without recomputation the probabilities as well: batch * heads * 8 * 8.
    CHECK(saved(Recompute::none) == values + sums + 2 * 4 * 8 * 8 * 2);
}

TEST_CASE("saved activations: full recomputation keeps the block's input only") {
    CHECK(saved(Recompute::full) == 16 * 64 * 2);
}

TEST_CASE("saved activations: ranks keep their heads, the residual whole") {
    auto const whole = 2 * 16 * 64 * 2;
    auto const dealt = (4 * 16 * 64 * 2 + 16 * 4 * 8) / 2;
    CHECK(saved(Recompute::selective, {.tp = 2}) == whole + dealt);
}

TEST_CASE("saved activations: probabilities that no memory could hold do not overflow") {
    auto const body = small_layer();
    auto const context =
        op_context(body, {.batch = 1, .new_tokens = 1LL << 33, .context = 1LL << 33, .is_training = true});
    CHECK(saved_activations(body, context, Recompute::none).count() >= std::int64_t{1} << 50U);
}

TEST_CASE("training step: it computes every token at once") {
    auto const step = training_step({.batch = 3, .context = 100}, {});
    CHECK(step.is_training);
    CHECK(step.tokens() == 300);
}
