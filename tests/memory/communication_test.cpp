// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/communication.hpp>
#include <shardwise/model/body_builder.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

namespace {

Bytes buffer_of(BlockBody const& body, OpRank const& rank,
                Step const& step = {.batch = 2, .new_tokens = 4, .context = 4}) {
    return communication_buffer(body, op_context(body, step, rank));
}

BlockBody row_parallel() {
    BodyBuilder body(64);
    auto const up = body.linear(body.input(), "up", "up", 256, UnitSplit::units(256));
    (void)body.linear(up, "down", "down", 64, Spread::partial);
    return std::move(body).finish();
}

}  // namespace

TEST_CASE("communication: one rank needs none") {
    CHECK(buffer_of(row_parallel(), {}) == 0_B);
}

TEST_CASE("communication: partial sums are staged once") {
    CHECK(buffer_of(row_parallel(), {.tp = 4}) == Bytes{8 * 64 * 2});
}

TEST_CASE("communication: sequence parallelism gathers the rows of what it multiplies") {
    CHECK(buffer_of(row_parallel(), {.tp = 4, .is_sequence_parallel = true}) == Bytes{8 * 64 * 2});
}

TEST_CASE("communication: rank 0 gathers the logits") {
    BodyBuilder body(64);
    (void)body.logits(body.last_token(body.input()), "weight", 1000);
    auto const head = std::move(body).finish();
    CHECK(buffer_of(head, {.tp = 4, .tp_rank = 0}) == Bytes{2 * 1000 * 4});
    CHECK(buffer_of(head, {.tp = 4, .tp_rank = 1}) == 0_B);
}

TEST_CASE("communication: expert-parallel ranks add up what their experts made") {
    BodyBuilder body(64);
    auto const scores = body.linear(body.input(), "router", "router", 8);
    auto const routes = body.route(scores, 8, 2);
    auto const made = body.experts(body.input(), routes, "out", "w", 64, Routing{8, 2}, Spread::partial);
    (void)body.combine(made, routes, Routing{8, 2});
    auto const mixture = std::move(body).finish();
    CHECK(buffer_of(mixture, {.ep = 4}) == Bytes{8 * 64 * 2});
}
