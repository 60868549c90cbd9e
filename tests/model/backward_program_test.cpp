// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/backward_program.hpp>
#include <shardwise/model/body_builder.hpp>

#include <doctest/doctest.h>

#include "block_interpreter.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr AttentionShape heads{.heads = 4, .kv_heads = 2, .key_dim = 4, .value_dim = 4};

/// qwen3's layer: norms of heads, rotary positions, a gated MLP.
BlockBody layer() {
    BodyBuilder body(16);
    auto const normed = body.norm(body.input(), NormKind::rms, "norm1");
    auto q = body.linear(normed, "q", "q_proj", 16, UnitSplit::units(4));
    auto k = body.linear(normed, "k", "k_proj", 8, UnitSplit::kv(2, 4));
    auto const v = body.linear(normed, "v", "v_proj", 8, UnitSplit::kv(2, 4));
    q = body.rope(body.head_norm(q, NormKind::rms, "q_norm", 4), heads);
    k = body.rope(body.head_norm(k, NormKind::rms, "k_norm", 4), heads);
    auto const out = body.linear(body.attention(q, k, v, heads), "o", "o_proj", 16, Spread::partial);
    auto const middle = body.add(body.input(), out);
    auto const again = body.norm(middle, NormKind::rms, "norm2");
    auto const gate = body.linear(again, "gate", "gate_proj", 24, UnitSplit::units(24));
    auto const up = body.linear(again, "up", "up_proj", 24, UnitSplit::units(24));
    auto const gated = body.gated(gate, up, ActivationKind::silu);
    (void)body.add(middle, body.linear(gated, "down", "down_proj", 16, Spread::partial));
    return std::move(body).finish();
}

std::string name_of(BackwardBody const& body, GradientStep const& step) {
    if (step.part == GradientPart::sum) return "sum";
    if (step.part == GradientPart::reduction) return step.spread == Spread::partial ? "reduce" : "reduce heads";
    auto const& op = body.forward.operations()[static_cast<std::size_t>(step.of)];
    auto const name = std::string(visit_op(op.kind, [](auto of) { return of.name; }));
    if (step.part == GradientPart::inputs) return name;
    return std::string(op.parameters[0]) + (step.spread == Spread::sharded   ? " sharded"
                                            : step.spread == Spread::partial ? " partial"
                                                                             : " whole");
}
std::vector<std::string> names_of(BackwardBody const& body) {
    std::vector<std::string> names;
    for (auto const& step : body.steps) names.push_back(name_of(body, step));
    return names;
}

}  // namespace

TEST_CASE("single_assignment: what was written in place becomes a value of its own, which those after it read") {
    auto const body = layer();
    auto const made = single_assignment(body);
    REQUIRE(made.operations().size() == body.operations().size());
    // Two norms of heads and two ropes.
    CHECK(made.values().size() == body.values().size() + 4);
    std::vector<ValueId> outputs;
    for (auto const& op : made.operations()) {
        CHECK(op.output != op.inputs[0]);
        for (auto const id : op.inputs) {
            bool const is_known =
                id == no_value || id == 0 || std::find(outputs.begin(), outputs.end(), id) != outputs.end();
            CHECK(is_known);
        }
        CHECK(std::find(outputs.begin(), outputs.end(), op.output) == outputs.end());
        outputs.push_back(op.output);
    }
}

TEST_CASE("backward_of: a layer in reverse; what ranks add up follows the last column-parallel reader, once") {
    auto const backward = backward_of(layer());
    REQUIRE(backward);
    CHECK(names_of(*backward) == std::vector<std::string>{"add",
                                                          "linear",
                                                          "down_proj sharded",
                                                          "activation",
                                                          "linear",
                                                          "up_proj sharded",
                                                          "linear",
                                                          "gate_proj sharded",
                                                          "reduce",
                                                          "norm",
                                                          "norm2 whole",
                                                          "add",
                                                          "linear",
                                                          "o_proj sharded",
                                                          "attention",
                                                          "reduce heads",
                                                          "rope",
                                                          "norm",
                                                          "k_norm partial",
                                                          "rope",
                                                          "norm",
                                                          "q_norm partial",
                                                          "reduce heads",
                                                          "linear",
                                                          "v_proj sharded",
                                                          "linear",
                                                          "k_proj sharded",
                                                          "linear",
                                                          "q_proj sharded",
                                                          "reduce",
                                                          "norm",
                                                          "norm1 whole"});
    REQUIRE(backward->log_sums.size() == 1);
    CHECK(backward->forward.operations()[static_cast<std::size_t>(backward->log_sums[0])].kind == OpKind::attention);
    CHECK(backward->in_gradient != no_value);
    // The residual's gradient is that of the addition, and then of the norm.
    auto const& last = backward->steps[backward->steps.size() - 2];
    CHECK(last.writes[0] == backward->in_gradient);
    CHECK(last.is_added[0]);
    // The inputs of additions are read by no gradient; neither are the outputs of row-parallel layers.
    for (auto const id : backward->saved) {
        auto const name = backward->values[static_cast<std::size_t>(id)].name;
        CAPTURE(std::string(name));
        CHECK(name != "o");
        CHECK(name != "down");
    }
}

TEST_CASE(
    "backward_of: a value that column-parallel and other operations read gets a reduced and a whole gradient, added") {
    BodyBuilder body(8);
    auto const normed = body.norm(body.input(), NormKind::layer, "norm", "bias");
    auto const up = body.activation(body.linear(normed, "up", "up", 12, UnitSplit::units(12)), ActivationKind::gelu);
    (void)body.add(normed, body.linear(up, "down", "down", 8, Spread::partial, "down_bias"));
    auto const backward = backward_of(std::move(body).finish());
    REQUIRE(backward);
    CHECK(names_of(*backward) == std::vector<std::string>{"add", "linear", "down sharded", "activation", "linear",
                                                          "up sharded", "reduce", "sum", "norm", "norm whole"});
    BlockInterpreter block(*backward);
    auto const out = block.forward();
    Numbers const ones(out.size(), 1.0);
    block.backward(ones);
    double by_difference = 0.0;
    {
        constexpr double step = 1e-6;
        BlockInterpreter up_side(*backward), down_side(*backward);
        up_side.parameters["norm"][3] += step;
        down_side.parameters["norm"][3] -= step;
        auto const a = up_side.forward(), b = down_side.forward();
        for (std::size_t i = 0; i < a.size(); ++i) by_difference += (a[i] - b[i]) / (2.0 * step);
    }
    CHECK(block.gradients["norm"][3] == doctest::Approx(by_difference).epsilon(1e-7));
}

TEST_CASE("backward_of: gradients that nothing trained needs are not made") {
    auto const only = [](std::string_view name) { return name == "o_proj" || name == "up_proj"; };
    auto const backward = backward_of(layer(), {}, false, only);
    REQUIRE(backward);
    CHECK(names_of(*backward) == std::vector<std::string>{"add", "linear", "activation", "linear", "up_proj sharded",
                                                          "linear", "reduce", "norm", "add", "o_proj sharded"});
    CHECK(backward->in_gradient == no_value);
    CHECK(backward->log_sums.empty());
    auto const none = backward_of(layer(), {}, false, [](std::string_view) { return false; });
    REQUIRE(none);
    CHECK(none->steps.empty());
    CHECK(none->saved.empty());
    // An attention reads what it made, also where nobody else does.
    auto const queries = backward_of(layer(), {}, false, [](std::string_view name) { return name == "q_proj"; });
    REQUIRE(queries);
    auto const saves_attention = [&](ValueId id) {
        return queries->values[static_cast<std::size_t>(id)].name == "attention";
    };
    CHECK(std::any_of(queries->saved.begin(), queries->saved.end(), saves_attention));
    // A frozen block still hands its input a gradient.
    auto const frozen = backward_of(layer(), {}, true, [](std::string_view) { return false; });
    REQUIRE(frozen);
    for (auto const& step : frozen->steps) CHECK(step.part != GradientPart::parameters);
    CHECK(frozen->in_gradient != no_value);
}

TEST_CASE("backward_of: what has no gradient yet is refused with its module, its parameter and the reason") {
    auto const message = [](auto write) {
        BodyBuilder body(16);
        write(body);
        auto const backward = backward_of(std::move(body).finish(), "layers.3");
        return backward ? std::string() : backward.error().message();
    };
    auto const experts = message([](BodyBuilder& body) {
        auto const routes = body.route(body.linear(body.input(), "scores", "router", 4), 4, 2);
        (void)body.combine(body.experts(body.input(), routes, "up", "experts.*.up", 16, Routing{4, 2}, {}), routes,
                           Routing{4, 2});
    });
    CHECK(experts.find("layers.3") != std::string::npos);
    CHECK(experts.find("routed experts have no gradient yet") != std::string::npos);
    auto const with = [&](AttentionShape const& shape, std::string_view scores = {}) {
        return message([&](BodyBuilder& body) {
            auto const q = body.linear(body.input(), "q", "q", 16, UnitSplit::units(4));
            (void)body.attention(q, q, q, shape, scores);
        });
    };
    CHECK(with(heads).empty());
    auto shape = heads;
    shape.latent = 8;
    CHECK(with(shape).find("MLA") != std::string::npos);
    shape = heads;
    shape.is_cross = true;
    CHECK(with(shape).find("cross-attention") != std::string::npos);
    shape = heads;
    shape.chunk = 8;
    CHECK(with(shape).find("chunks") != std::string::npos);
    shape = heads;
    shape.bias_reach = 3;
    CHECK(with(shape).find("biases by distance") != std::string::npos);
    CHECK(with(heads, "sinks").find("sinks") != std::string::npos);
    CHECK(message([](BodyBuilder& body) { (void)body.first_token(body.input()); }).find("first token") !=
          std::string::npos);
    CHECK(message([](BodyBuilder& body) { (void)body.mean_token(body.input()); }).find("mean of tokens") !=
          std::string::npos);
    CHECK(message([](BodyBuilder& body) {
              auto const q = body.linear(body.input(), "q", "q", 16, UnitSplit::units(4));
              (void)body.head_norm(q, NormKind::layer, "n", 4, {}, true);
          }).find("a norm with a weight for each head has no gradient yet") != std::string::npos);
    CHECK(message([](BodyBuilder& body) { (void)body.part_norm(body.input(), NormKind::rms, "n", 8); }).find("MLA") !=
          std::string::npos);
}
