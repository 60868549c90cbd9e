// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "fixtures.hpp"

#include <vector>

using namespace shardwise;
using op_test::context;

TEST_CASE("linear: two operations per row, input and output column; one more per result for the bias") {
    Operation op{.kind = OpKind::linear,
                 .inputs = {0, no_value, no_value, no_value},
                 .output = 1,
                 .parameters = {"w"},
                 .in_features = 8,
                 .out_features = 8};
    CHECK(op_work(op, context()).flops == 2.0 * 6 * 8 * 8);
    CHECK(op_work(op, context()).traffic == 6 * (8 + 8) * 2);
    op.parameters[1] = "b";
    CHECK(op_work(op, context()).flops == 2.0 * 6 * 8 * 8 + 6 * 8);
}

TEST_CASE("linear: the ranks' shares add up to the whole, by columns and by rows") {
    Operation const column{.kind = OpKind::linear,
                           .inputs = {0, no_value, no_value, no_value},
                           .output = 1,
                           .in_features = 8,
                           .out_features = 8};
    Operation const row{.kind = OpKind::linear,
                        .inputs = {1, no_value, no_value, no_value},
                        .output = 3,
                        .in_features = 8,
                        .out_features = 8};
    for (auto const& op : {column, row}) {
        double sum = 0.0;
        for (std::int64_t rank = 0; rank < 3; ++rank) sum += op_work(op, context({.tp = 3, .tp_rank = rank})).flops;
        CHECK(sum == op_work(op, context()).flops);
    }
}

TEST_CASE("linear: sequence parallelism gathers the rows before the product") {
    Operation const op{.kind = OpKind::linear,
                       .inputs = {0, no_value, no_value, no_value},
                       .output = 1,
                       .in_features = 8,
                       .out_features = 8};
    auto const rank = OpRank{.tp = 2, .is_sequence_parallel = true};
    CHECK(op_work(op, context(rank)).flops == 2.0 * 6 * 8 * 4);
}

TEST_CASE("experts: work is per routed row") {
    Operation const op{.kind = OpKind::experts,
                       .inputs = {0, 4, no_value, no_value},
                       .output = 5,
                       .in_features = 8,
                       .out_features = 10,
                       .details = Routing{6, 2}};
    CHECK(op_work(op, context()).flops == 2.0 * 12 * 8 * 10);
    CHECK(op_work(op, context()).traffic == 12 * 8 * 2 + 12 * 10 * 2);
    CHECK(op_work(op, context()).workspace == Bytes{4 * (12 + 6 + 1)});
    CHECK(experts_touched(context()) == 6);
    auto few = context();
    few.step = {.batch = 1, .new_tokens = 1, .context = 5};
    CHECK(experts_touched(few) == 2);
}

TEST_CASE("combine: a product and a sum per routed element") {
    Operation const op{
        .kind = OpKind::combine, .inputs = {5, 4, no_value, no_value}, .output = 0, .details = Routing{6, 2}};
    CHECK(op_work(op, context()).flops == 2.0 * 12 * 10);
}

TEST_CASE("scale: an operation per element, in place, a read and a write") {
    Operation const op{
        .kind = OpKind::scale, .inputs = {0, no_value, no_value, no_value}, .output = 0, .details = ScaleFactor{0.5}};
    CHECK(op_work(op, context()).flops == 48.0);
    CHECK(op_work(op, context()).traffic == 2 * 48 * 2);
    CHECK(op_work(op, context()).workspace == Bytes{});
}

TEST_CASE("route: a softmax over the experts and a pass per chosen one") {
    Operation const op{
        .kind = OpKind::route, .inputs = {4, no_value, no_value, no_value}, .output = 4, .details = Routing{6, 2}};
    CHECK(op_work(op, context()).flops == 6.0 * 6 * (5 + 2));
}

TEST_CASE("norm: 4 operations per element for rms, 7 for layer norm") {
    Operation op{.kind = OpKind::norm, .inputs = {0, no_value, no_value, no_value}, .output = 0};
    CHECK(op_work(op, context()).flops == 4.0 * 48);
    op.details = NormRule{.kind = NormKind::layer};
    CHECK(op_work(op, context()).flops == 7.0 * 48);
    CHECK(op_work(op, context()).traffic == 2 * 48 * 2);
}

TEST_CASE("norm: ranks add up the squares of rows that none holds whole, three floats per row") {
    auto const workspace = [](ValueId value, std::int64_t width, std::int64_t tp) {
        Operation const op{.kind = OpKind::norm,
                           .inputs = {value, no_value, no_value, no_value},
                           .output = value,
                           .in_features = width};
        return op_work(op, context({.tp = tp})).workspace;
    };
    CHECK(workspace(1, 8, 2) == Bytes{6 * 12});  // over all query heads
    CHECK(workspace(2, 4, 2) == Bytes{6 * 12});
    CHECK(workspace(1, 8, 1) == Bytes{0});
    CHECK(workspace(1, 2, 2) == Bytes{0});  // of each head
    CHECK(workspace(0, 8, 2) == Bytes{0});  // of what every rank holds
}

TEST_CASE("add: one operation and three values moved") {
    Operation const op{.kind = OpKind::add, .inputs = {0, 3, no_value, no_value}, .output = 0};
    CHECK(op_work(op, context()).flops == 48.0);
    CHECK(op_work(op, context()).traffic == 3 * 48 * 2);
}

TEST_CASE("activation: a gate costs one product more, and both inputs move") {
    Operation op{.kind = OpKind::activation, .inputs = {0, no_value, no_value, no_value}, .output = 0};
    op.details = ActivationKind::relu;
    CHECK(op_work(op, context()).flops == 48.0);
    CHECK(op_work(op, context()).traffic == 2 * 48 * 2);
    op.inputs[1] = 3;
    CHECK(op_work(op, context()).flops == 96.0);
    CHECK(op_work(op, context()).traffic == 3 * 48 * 2);
    op.inputs[1] = 0;  // both halves of one value: it moves once
    CHECK(op_work(op, context()).traffic == 2 * 48 * 2);
}

TEST_CASE("rope: three operations per element, in place") {
    Operation const op{.kind = OpKind::rope, .inputs = {1, no_value, no_value, no_value}, .output = 1};
    CHECK(op_work(op, context()).flops == 3.0 * 48);
}

TEST_CASE("embedding and last_token move rows and compute nothing") {
    Operation op{.kind = OpKind::embedding, .inputs = {0, no_value, no_value, no_value}, .output = 0};
    CHECK(op_work(op, context()).flops == 0.0);
    CHECK(op_work(op, context()).traffic == 2 * 48 * 2);
    op.kind = OpKind::last_token;
    op.output = 6;
    CHECK(op_work(op, context()).flops == 0.0);
    CHECK(op_work(op, context()).traffic == 2 * 16 * 2);
}

TEST_CASE("only operations that read before they write may write over an input") {
    CHECK(is_element_wise(OpKind::add));
    CHECK(is_element_wise(OpKind::activation));
    CHECK(is_element_wise(OpKind::norm));
    CHECK_FALSE(is_element_wise(OpKind::linear));
    CHECK_FALSE(is_element_wise(OpKind::attention));
    CHECK_FALSE(is_element_wise(OpKind::combine));
}

// Two key heads of 3 with two value heads of 5 each, after a convolution of 4 tokens; six tokens of two sequences.
TEST_CASE("gated_delta: counts convolution, rule and norm of each token, and a state of each sequence") {
    DeltaShape const shape{.key_heads = 2, .value_heads = 4, .key_dim = 3, .value_dim = 5, .kernel = 4};
    CHECK(shape.channels() == 3 + 3 + 10);
    // Of a key head: three earlier inputs of each channel, and a matrix of 3 x 5 for each value head.
    CHECK(shape.state_elements(1) == 16 * 3 + 2 * 15);
    auto const kept = kept_heads({.kind = OpKind::gated_delta, .details = shape});
    CHECK(kept.state == 78);
    CHECK(kept.heads(1, 0) == 2);
    CHECK(kept.heads(2, 1) == 1);
    CHECK(kept.heads(3, 2) == 0);
    std::vector<Value> const values{
        {.name = "qkvz", .width = 2 * 26, .spread = Spread::sharded, .split = UnitSplit::units(2)},
        {.name = "ba", .width = 8, .spread = Spread::sharded, .split = UnitSplit::units(2)},
        {.name = "delta", .width = 20, .spread = Spread::sharded, .split = UnitSplit::units(2)}};
    auto step = context();
    step.values = values;
    Operation const op{
        .kind = OpKind::gated_delta, .inputs = {0, 1, no_value, no_value}, .output = 2, .details = shape};
    auto const work = op_work(op, step);
    CHECK(work.flops == 6.0 * 2 * (16 * 12 + 7 * 2 * 15 + 9 * 10));
    CHECK(work.kv_read == 2.0 * 4 * 2 * 78);
    CHECK(work.traffic == 6 * (52 + 8 + 20) * 2 + work.kv_read);
    double sum = 0.0;
    for (std::int64_t rank = 0; rank < 3; ++rank) {
        step.rank = {.tp = 3, .tp_rank = rank};
        sum += op_work(op, step).flops;
    }
    CHECK(sum == work.flops);
}

TEST_CASE("part: moves its columns and computes nothing") {
    Operation const op{.kind = OpKind::part,
                       .inputs = {1, no_value, no_value, no_value},
                       .output = 2,
                       .in_features = 4,
                       .out_features = 2};
    CHECK(op_work(op, context()).flops == 0.0);
    CHECK(op_work(op, context()).traffic == 2.0 * 6 * 4 * 2);
}
