// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/block_program.hpp>
#include <shardwise/model/body_builder.hpp>

#include <doctest/doctest.h>

#include <string>
#include <utility>

using namespace shardwise;

TEST_CASE("BlockProgram: neighbouring layers of one body become a run") {
    BlockProgram program;
    auto const a = program.add(BodyBuilder(8).finish());
    auto const b = program.add(BodyBuilder(8).finish());
    for (auto const& [number, body] : {std::pair{0, a}, {1, a}, {2, b}, {3, a}, {4, a}})
        program.append_layer("layers", number, body);
    program.append_layer("other", 5, a);
    program.append_layer("other", 7, a);
    REQUIRE(program.blocks().size() == 5);
    CHECK(program.blocks()[0].count == 2);
    CHECK(program.blocks()[2].first == 3);
    CHECK(program.blocks()[2].count == 2);
    CHECK(program.blocks()[4].first == 7);
}

TEST_CASE("BlockProgram: single blocks are no runs, and empty runs are none") {
    BlockProgram program;
    auto const body = program.add(BodyBuilder(8).finish());
    program.append_layers("layers", 0, 0, body);
    CHECK(program.blocks().empty());
    program.append(ModuleRole::head, "lm_head", body);
    program.append_layers("layers", 3, 1, body);
    CHECK(!program.blocks()[0].is_numbered);
    CHECK(program.blocks()[1].is_numbered);
    CHECK(&program.body(program.blocks()[1]) == &program.bodies()[0]);
}

TEST_CASE("BodyBuilder: column linears shard their output, row linears leave a summand") {
    BodyBuilder body(16);
    auto const up = body.linear(body.input(), "up", "up.weight", 64, UnitSplit::units(64));
    CHECK(body.at(up).spread == Spread::sharded);
    CHECK(body.at(up).split.count == 64);
    auto const act = body.activation(up, ActivationKind::gelu);
    CHECK(body.at(act).spread == Spread::sharded);
    auto const down = body.linear(act, "down", "down.weight", 16, Spread::partial, "down.bias");
    CHECK(body.at(down).spread == Spread::partial);
    CHECK(body.at(down).width == 16);
    auto const sum = body.add(body.input(), down);
    CHECK(body.at(sum).spread == Spread::replicated);
    auto const finished = std::move(body).finish();
    CHECK(finished.operations().size() == 4);
    CHECK(finished.operations()[2].parameters[1] == "down.bias");
    CHECK(finished.operations()[2].in_features == 64);
}

TEST_CASE("BodyBuilder: a norm of a summand reads the reduced value") {
    BodyBuilder body(16);
    auto const partial = body.linear(body.input(), "o", "o.weight", 16, Spread::partial);
    CHECK(body.at(body.norm(partial, NormKind::rms, "norm.weight")).spread == Spread::replicated);
}

TEST_CASE("BodyBuilder: rope and head norms work in place") {
    BodyBuilder body(16);
    auto const q = body.linear(body.input(), "q", "q.weight", 16, UnitSplit::units(4));
    CHECK(body.head_norm(q, NormKind::rms, "q_norm.weight", 4) == q);
    CHECK(body.rope(q, AttentionShape{.heads = 4, .kv_heads = 2, .key_dim = 4, .value_dim = 4}) == q);
}

TEST_CASE("BodyBuilder: a product says which heads its rows make, where files may store them in another order") {
    auto const rows_of = [](std::int64_t key_dim, auto const& write) {
        BodyBuilder body(16);
        auto const q = body.linear(body.input(), "q", "q.weight", 16, UnitSplit::units(4));
        auto const k = body.linear(body.input(), "k", "k.weight", 8, UnitSplit::units(2));
        auto const v = body.linear(body.input(), "v", "v.weight", 8, UnitSplit::units(2));
        write(body, q, k, v, AttentionShape{.heads = 4, .kv_heads = 2, .key_dim = key_dim, .value_dim = 4});
        auto const made = std::move(body).finish();
        std::string rows;
        for (auto const& op : made.operations()) {
            if (op.kind == OpKind::linear) rows += "prgd"[static_cast<std::size_t>(op.stored_heads().rows)];
        }
        return rows;
    };
    auto const attend = [](BodyBuilder& body, ValueId q, ValueId k, ValueId v, AttentionShape const& shape) {
        q = body.rope(body.head_norm(q, NormKind::rms, "norm.weight", 4), shape);
        (void)body.attention(q, k, v, shape);
    };
    CHECK(rows_of(4, attend) == "rrp");
    // Heads of an odd width have no halves.
    CHECK(rows_of(3, [](BodyBuilder& body, ValueId q, ValueId k, ValueId v, AttentionShape const& shape) {
              (void)body.attention(q, k, v, shape);
          }) == "ppp");
    // A norm over all heads makes another value, which no weight makes.
    CHECK(rows_of(4, [](BodyBuilder& body, ValueId q, ValueId k, ValueId v, AttentionShape const& shape) {
              (void)body.attention(body.norm(q, NormKind::rms, "norm.weight"), k, v, shape);
          }) == "prp");
    CHECK(rows_of(4, [](BodyBuilder& body, ValueId q, ValueId k, ValueId, AttentionShape const& shape) {
              (void)body.attention(q, k, k, shape);
          }) == "rpp");
    CHECK(rows_of(4, [](BodyBuilder& body, ValueId q, ValueId, ValueId, AttentionShape const& shape) {
              body.group_heads(q, shape);
              (void)body.attention(q, q, q, shape);
          }) == "gpp");
    CHECK(rows_of(4, [](BodyBuilder& body, ValueId q, ValueId k, ValueId, AttentionShape const&) {
              DeltaShape const shape{.key_heads = 2, .value_heads = 2, .key_dim = 2, .value_dim = 2};
              (void)body.gated_delta(q, k, shape, {"conv", "dt", "a", "norm"});
          }) == "dpp");
}

TEST_CASE("BodyBuilder: experts work on routed rows and combine brings back tokens") {
    BodyBuilder body(16);
    auto const scores = body.linear(body.input(), "router", "gate.weight", 8);
    auto const routes = body.route(scores, 8, 2);
    CHECK(body.at(routes).width == 4);
    auto const up =
        body.experts(body.input(), routes, "up", "experts.*.up.weight", 32, Routing{8, 2}, UnitSplit::units(32));
    CHECK(body.at(up).rows == Rows::routed);
    auto const down = body.experts(up, routes, "down", "experts.*.down.weight", 16, Routing{8, 2}, Spread::partial);
    auto const out = body.combine(down, routes, Routing{8, 2});
    CHECK(body.at(out).rows == Rows::tokens);
    CHECK(body.at(out).spread == Spread::partial);
    auto const scale = body.linear(body.input(), "scale", "scale.weight", 1);
    CHECK(body.at(body.scaled_rows(scale, out, ActivationKind::sigmoid)).width == 16);
}

TEST_CASE("BodyBuilder: halves, tables, the last rows and logits have their shapes") {
    BodyBuilder body(Value{.name = "ids", .width = 1});
    auto const embedded = body.embedding(body.input(), "weight", 100, 16);
    CHECK(body.at(embedded).width == 16);
    auto const packed = body.linear(embedded, "gate_up", "gate_up.weight", 64, UnitSplit::units(32));
    CHECK(body.at(body.gated_halves(packed, ActivationKind::silu)).width == 32);
    auto const last = body.last_token(embedded);
    CHECK(body.at(last).rows == Rows::sequences);
    auto const logits = body.logits(last, "weight", 100);
    CHECK(body.at(logits).is_fp32);
    CHECK(body.at(logits).split.count == 100);
}

TEST_CASE("BodyBuilder: norms that the executor does not compute over sharded values are refused by their weight") {
    auto const reason = [](auto write) {
        BodyBuilder body(16);
        write(body, body.linear(body.input(), "q", "q.weight", 24, UnitSplit::units(4)),
              body.linear(body.input(), "qkv", "qkv.weight", 48, UnitSplit::qkv(4, 2)));
        auto const checked = std::move(body).finish().check("layers");
        return checked ? std::string() : checked.error().message();
    };
    using Body = BodyBuilder;
    CHECK(reason([](Body& body, ValueId q, ValueId) { body.norm(q, NormKind::rms, "n.weight"); }).empty());
    CHECK(reason([](Body& body, ValueId q, ValueId) {
              body.head_norm(q, NormKind::layer, "n.weight", 6, "n.bias");
          }).empty());
    CHECK(reason([](Body& body, ValueId q, ValueId) { body.head_norm(q, NormKind::rms, "n.weight", 24); }).empty());
    CHECK(reason([](Body& body, ValueId, ValueId qkv) { body.head_norm(qkv, NormKind::rms, "n.weight", 6); }).empty());
    CHECK(reason([](Body& body, ValueId, ValueId) {
              body.part_norm(body.input(), NormKind::rms, "n.weight", 8);
          }).empty());
    CHECK(reason([](Body& body, ValueId, ValueId) {
              body.norm(body.input(), NormKind::layer, "n.weight", "n.bias");
          }).empty());

    CHECK(reason([](Body& body, ValueId q, ValueId) { body.norm(q, NormKind::layer, "n.weight"); }) ==
          "layers: n.weight: is a layer norm over a sharded value");
    CHECK(reason([](Body& body, ValueId, ValueId qkv) { body.norm(qkv, NormKind::rms, "n.weight"); }) ==
          "layers: n.weight: is a norm over packed queries, keys and values");
    CHECK(reason([](Body& body, ValueId q, ValueId) { body.part_norm(q, NormKind::rms, "n.weight", 6); }) ==
          "layers: n.weight: is a norm of a part of a sharded value");
    CHECK(reason([](Body& body, ValueId q, ValueId) { body.head_norm(q, NormKind::rms, "n.weight", 12); }) ==
          "layers: n.weight: is a norm of heads that the value is not made of");
    CHECK(reason([](Body& body, ValueId, ValueId) { body.head_norm(body.input(), NormKind::rms, "n.weight", 0); }) ==
          "layers: n.weight: is a norm of heads that the value is not made of");
    CHECK(reason([](Body& body, ValueId, ValueId) { body.part_norm(body.input(), NormKind::rms, "n.weight", 17); }) ==
          "layers: n.weight: is a norm of more than the value has");
    CHECK(reason([](Body& body, ValueId, ValueId) { body.norm(body.input(), NormKind::rms, "n.weight", "n.bias"); }) ==
          "layers: n.bias: is the bias of an rms norm, which has none");
    CHECK(reason([](Body& body, ValueId q, ValueId) {
              auto const k = body.linear(q, "k", "k.weight", 24, UnitSplit::units(4));
              auto const v = body.norm(k, NormKind::rms, "v.weight");
              body.attention(q, k, v, {.heads = 4, .kv_heads = 4, .key_dim = 6, .value_dim = 6, .latent = 8});
          }) == "layers: v.weight: changes the values of an attention that makes them of a latent");
    // The first note stays.
    CHECK(reason([](Body& body, ValueId q, ValueId) {
              body.norm(q, NormKind::layer, "a.weight");
              body.norm(q, NormKind::layer, "b.weight");
          }) == "layers: a.weight: is a layer norm over a sharded value");
}
