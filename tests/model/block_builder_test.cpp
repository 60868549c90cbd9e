// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/program_builder.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>

using namespace shardwise;

namespace {

Tensor weight(std::int64_t out, std::int64_t in, ShardRule shard = {}) {
    return {.name = "weight", .shape = {out, in}, .shard = shard};
}
Tensor vector_of(std::string_view name, std::int64_t size) {
    return {.name = name, .shape = {size}};
}

/// ids -> embed -> two layers of 4 query heads and 2 key-value heads of 8 -> norm -> head.
ModuleTree small_tree() {
    ModuleTree tree;
    auto const q = tree.add("Linear", {weight(32, 16, ShardRule::units(0, 4)), vector_of("bias", 32)});
    auto const kv = tree.add("Linear", {weight(16, 16, ShardRule::kv(0, 2, 4))});
    auto const o = tree.add("Linear", {weight(16, 32, ShardRule::units(1, 4))});
    auto transposed = weight(16, 64, ShardRule::units(1, 64));
    transposed.is_transposed = true;
    auto const up = tree.add("Conv1D", {transposed, vector_of("bias", 64)});
    auto const plain = tree.add("Norm", {vector_of("weight", 16)});
    auto const bare = tree.add("Norm", {}, {});
    auto const layer = tree.add("Layer", {vector_of("sinks", 4)},
                                {{"q", q}, {"k", kv}, {"o", o}, {"up", up}, {"norm", plain}, {"bare", bare}});
    auto const list = tree.add("ModuleList", {}, {numbered(0, 2, layer, ModuleRole::layer)});
    auto const table = tree.add("Embedding", {weight(100, 16)});
    auto const head = tree.add("Linear", {weight(100, 16, ShardRule::units(0, 100))});
    auto const base = tree.add(
        "Base", {}, {{"embed", table, ModuleRole::embedding}, {"layers", list}, {"norm", plain, ModuleRole::norm}});
    tree.set_root(tree.add("Model", {}, {{"base", base}, {"head", head, ModuleRole::head}}));
    return tree;
}

/// The program of that tree whose layers `write` writes.
template <class Write>
BlockProgram program_of(ModuleTree const& tree, Write const& write) {
    ProgramBuilder model(tree, "base");
    model.tokens("embed");
    model.layers("layers", write);
    model.norm("norm", NormKind::rms);
    model.head("head");
    return std::move(model).finish();
}

}  // namespace

TEST_CASE("block builder: names, sizes, biases and shares are the tree's") {
    auto const tree = small_tree();
    auto const program = program_of(tree, [](BlockBuilder& body) {
        auto const q = body.linear(body.norm(body.input(), NormKind::rms, "norm"), "q", "q");
        auto const k = body.linear(body.input(), "k", "k");
        AttentionShape const shape{.heads = 4, .kv_heads = 2, .key_dim = 8, .value_dim = 8};
        auto const context = body.attention(q, k, k, shape, "sinks");
        auto const out = body.add(body.input(), body.linear(context, "out", "o"));
        (void)body.linear(out, "up", "up");
    });
    REQUIRE(program.bodies().size() == 4);
    auto const& layer = program.bodies()[1];
    auto const& q = layer.operations()[1];
    CHECK(q.parameters[0] == "q.weight");
    CHECK(q.parameters[1] == "q.bias");
    CHECK(q.in_features == 16);
    CHECK(q.out_features == 32);
    auto const& made = layer.values()[static_cast<std::size_t>(q.output)];
    CHECK(made.spread == Spread::sharded);
    CHECK(made.split == UnitSplit::units(4));
    auto const& k = layer.operations()[2];
    CHECK(k.parameters[1].empty());
    CHECK(layer.values()[static_cast<std::size_t>(k.output)].split.heads == 4);
    CHECK(layer.operations()[3].parameters[0] == "sinks");
    auto const& o = layer.operations()[4];
    CHECK(layer.values()[static_cast<std::size_t>(o.output)].spread == Spread::partial);
    auto const& up = layer.operations()[6];
    CHECK(up.in_features == 16);
    CHECK(up.out_features == 64);
    CHECK(layer.values()[static_cast<std::size_t>(up.output)].split.count == 64);
}

TEST_CASE("block builder: blocks have the tree's paths and roles, and read what the one before made") {
    auto const tree = small_tree();
    auto const program = program_of(tree, [](BlockBuilder& body) { (void)body.linear(body.input(), "k", "k"); });
    REQUIRE(program.blocks().size() == 4);
    CHECK(program.blocks()[0].module == "base.embed");
    CHECK(program.blocks()[0].role == ModuleRole::embedding);
    CHECK(program.blocks()[1].module == "base.layers");
    CHECK(program.blocks()[1].count == 2);
    CHECK(program.blocks()[2].role == ModuleRole::norm);
    CHECK(program.blocks()[3].module == "head");
    CHECK(program.body(program.blocks()[1]).values()[0].width == 16);
    auto const& scores = program.body(program.blocks()[3]);
    CHECK(scores.values()[static_cast<std::size_t>(scores.operations().back().output)].is_fp32);
}

TEST_CASE("block builder: layers of equal modules have a body for each kind, once") {
    auto const tree = small_tree();
    ProgramBuilder model(tree, "base");
    model.tokens("embed");
    int written = 0;
    model.layers(
        "layers", [](std::int64_t layer) { return layer % 2; },
        [&](BlockBuilder& body, std::int64_t kind) {
            ++written;
            (void)body.scale(body.input(), static_cast<double>(kind) + 2.0);
        });
    auto const program = std::move(model).finish();
    CHECK(written == 2);
    REQUIRE(program.blocks().size() == 3);
    CHECK(program.body(program.blocks()[2]).operations()[0].factor() == 3.0);
}

TEST_CASE("block builder: what the tree does not have is left out or refused by its name") {
    auto const tree = small_tree();
    auto const program = program_of(tree, [](BlockBuilder& body) {
        CHECK_FALSE(body.has("gate"));
        CHECK_FALSE(body.has_weight("bare"));
        (void)body.norm(body.input(), NormKind::layer, "bare");
        (void)body.linear(body.input(), "gate", "gate");
    });
    auto const& layer = program.bodies()[1];
    CHECK(layer.operations()[0].parameters[0].empty());
    auto const refused = layer.check("base.layers");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message() == "base.layers: gate: is no parameter of the block's modules");
    ProgramBuilder model(tree, "base");
    model.head("score");
    model.norm("second_norm", NormKind::rms);
    CHECK(std::move(model).finish().blocks().empty());
}
