// SPDX-License-Identifier: Apache-2.0
#include <shardwise/placement/map_entries.hpp>
#include <shardwise/placement/sequence_builder.hpp>

#include <doctest/doctest.h>

#include <array>
#include <string>

namespace {

using namespace shardwise;

Tensor weight(std::string_view name, std::int64_t elements, TensorKind kind = TensorKind::parameter) {
    return {.name = name, .shape = {elements}, .dtype = Dtype::f32, .kind = kind};
}

/// accelerate's own test model: linear1 64 B, batchnorm 72 B, linear2 100 B (facts/placement.md).
ModuleId add_three(ModuleTree& tree) {
    auto const linear1 = tree.add("Linear", {weight("weight", 12), weight("bias", 4)});
    auto const batchnorm = tree.add("BatchNorm1d", {weight("weight", 4), weight("bias", 4), weight("mean", 4, TensorKind::buffer),
                                                    weight("var", 4, TensorKind::buffer), weight("count", 2, TensorKind::buffer)});
    auto const linear2 = tree.add("Linear", {weight("weight", 20), weight("bias", 5)});
    return tree.add("ModelForTest", {}, {{"linear1", linear1}, {"batchnorm", batchnorm}, {"linear2", linear2}});
}

ModuleSequence sequence_of(ModuleTree const& tree, Span<std::string_view const> no_split = {},
                           Granularity granularity = Granularity::modules) {
    return build_sequence(tree, no_split, [](Tensor const& tensor, LayerPosition const&) { return tensor.bytes(); }, granularity);
}

std::string text_of(ModuleSequence const& sequence) {
    std::string text;
    for (auto const& unit : sequence.units) text += std::string(unit.path) + "=" + std::to_string(unit.weights.count()) + " ";
    for (auto const& tied : sequence.tied) text += std::string(tied.path) + "@" + std::to_string(tied.unit) + " ";
    return text;
}

TEST_CASE("build_sequence: leaf modules in registration order with their bytes") {
    ModuleTree tree;
    tree.set_root(add_three(tree));
    CHECK(text_of(sequence_of(tree)) == "linear1=64 batchnorm=72 linear2=100 ");
}

TEST_CASE("build_sequence: instances of a no-split class are whole, numbered runs are spelled out") {
    ModuleTree tree;
    auto const three = add_three(tree);
    tree.set_root(tree.add("Sequential", {numbered(0, 3, three, ModuleRole::layer)}));
    std::array<std::string_view, 1> const no_split{"ModelForTest"};
    auto const sequence = sequence_of(tree, no_split);
    CHECK(text_of(sequence) == "0=236 1=236 2=236 ");
    CHECK(sequence.units[2].layer == LayerId{2});
    CHECK(sequence_of(tree).units.size() == 9);
    CHECK(sequence_of(tree).units[4].path == "1.batchnorm");
    CHECK(sequence_of(tree).units[4].layer == LayerId{1});
}

TEST_CASE("build_sequence: a split module's own parameters come before its children, its buffers after") {
    ModuleTree tree;
    auto const leaf = tree.add("Linear", {weight("weight", 1)});
    tree.set_root(tree.add("Mixed", {weight("scale", 2), weight("mask", 3, TensorKind::buffer)}, {{"leaf", leaf}}));
    CHECK(text_of(sequence_of(tree)) == "scale=8 leaf=4 mask=12 ");
}

TEST_CASE("build_sequence: a module without anything to place is left out, an empty parameter is not") {
    ModuleTree tree;
    auto const empty = tree.add("Dropout", {}, {});
    auto const zero = tree.add("Linear", {weight("weight", 0)});
    tree.set_root(tree.add("Root", {{"drop", empty}, {"zero", zero}}));
    CHECK(text_of(sequence_of(tree)) == "zero=0 ");
}

TEST_CASE("build_sequence: a unit that holds nothing but a tied tensor goes where the first name is") {
    ModuleTree tree;
    auto const table = tree.add("Embedding", {weight("weight", 10)});
    auto const norm = tree.add("Norm", {weight("weight", 1)});
    tree.set_root(tree.add("Root", {{"embed", table}, {"norm", norm}, {"head", table}}));
    tree.tie("embed.weight", "head.weight");
    CHECK(text_of(sequence_of(tree)) == "embed=40 norm=4 head@0 ");
}

TEST_CASE("build_sequence: a unit with more than the tied tensor stays and costs only the rest") {
    ModuleTree tree;
    auto const linear = tree.add("Linear", {weight("weight", 10), weight("bias", 2)});
    tree.set_root(tree.add("Root", {{"a", linear}, {"b", linear}, {"c", linear}}));
    tree.tie("a.weight", "b.weight");
    tree.tie("a.weight", "c.weight");
    CHECK(text_of(sequence_of(tree)) == "a=48 b=8 c=8 b.weight@0 c.weight@0 ");
}

TEST_CASE("build_sequence: a chain of ties counts the tensor once, whatever its units are") {
    ModuleTree tree;
    auto const shared = tree.add("Embedding", {weight("weight", 10)});
    auto const encoder = tree.add("Stack", {{"embed", shared}});
    tree.set_root(tree.add("Root", {{"shared", shared}, {"encoder", encoder}, {"decoder", encoder}, {"head", shared}}));
    for (auto const* other : {"encoder.embed.weight", "decoder.embed.weight", "head.weight"}) tree.tie("shared.weight", other);
    auto const sequence = sequence_of(tree);
    CHECK(text_of(sequence) == "shared=40 encoder.embed@0 decoder.embed@0 head@0 ");
}

TEST_CASE("build_sequence: tensors can be units of their own") {
    ModuleTree tree;
    tree.set_root(add_three(tree));
    auto const sequence = sequence_of(tree, {}, Granularity::tensors);
    CHECK(sequence.units.size() == 9);
    CHECK(sequence.units.front().path == "linear1.weight");
    CHECK(sequence.units.front().weights == 48_B);
}

std::string entries_of(ModuleSequence const& sequence, List<std::int32_t> devices) {
    Budgets budgets;
    for (int i = 0; i < 4; ++i) budgets.push_back({DeviceId::gpu(i), {}, {}, 0, 0, 0, 0});
    std::string text;
    for (auto const& entry : map_entries(sequence, budgets, Placement{std::move(devices), {}})) {
        text += entry.prefix + ":" + std::to_string(entry.device.index) + " ";
    }
    return text;
}

TEST_CASE("map_entries: prefixes are joined where a whole module is on one device, up to the whole model") {
    ModuleTree tree;
    auto const three = add_three(tree);
    tree.set_root(tree.add("Sequential", {numbered(0, 3, three)}));
    auto const sequence = sequence_of(tree);
    CHECK(entries_of(sequence, {0, 0, 0, 0, 0, 1, 1, 1, 1}) == "0:0 1.linear1:0 1.batchnorm:0 1.linear2:1 2:1 ");
    CHECK(entries_of(sequence, List<std::int32_t>(9, 2)) == ":2 ");
}

TEST_CASE("map_entries: tensors that are all their module has are named by the module, as accelerate's hooks need") {
    ModuleTree tree;
    auto const table = tree.add("Embedding", {weight("weight", 10)});
    auto const linear = tree.add("Linear", {weight("weight", 4), weight("bias", 1)});
    auto const body = tree.add("Body", {weight("scale", 1)}, {{"embed", table}, {"dense", linear}, {"out", linear}});
    tree.set_root(tree.add("Root", {{"model", body}, {"head", table}, {"other", table}}));
    tree.tie("model.embed.weight", "head.weight");
    auto const sequence = sequence_of(tree, {}, Granularity::tensors);
    // model.scale, model.embed.weight, model.dense.{weight,bias}, model.out.{weight,bias}, other.weight
    CHECK(entries_of(sequence, {0, 1, 2, 2, 2, 3, 0}) ==
          "model.scale:0 model.embed:1 model.dense:2 model.out.weight:2 model.out.bias:3 other:0 head:1 ");
}

TEST_CASE("map_entries: a tied name is written beside its siblings with the first name's device") {
    ModuleTree tree;
    auto const table = tree.add("Embedding", {weight("weight", 10)});
    auto const norm = tree.add("Norm", {weight("weight", 1)});
    auto const body = tree.add("Body", {{"embed", table}, {"norm", norm}});
    tree.set_root(tree.add("Root", {{"model", body}, {"head", table}}));
    tree.tie("model.embed.weight", "head.weight");
    auto const sequence = sequence_of(tree);
    CHECK(entries_of(sequence, {0, 1}) == "model.embed:0 model.norm:1 head:0 ");
    CHECK(entries_of(sequence, {0, 0}) == ":0 ");
}

TEST_CASE("map_entries: several tied tensors of a unit that is named whole keep their own names") {
    // Found by random trees: joined they were a second entry "b", on the other device.
    ModuleSequence sequence;
    for (auto const* path : {"a", "b", "c"}) {
        PlacementUnit unit;
        unit.path = path;
        sequence.units.push_back(unit);
    }
    sequence.tied.push_back({.path = "b.weight", .unit = 0});
    sequence.tied.push_back({.path = "b.part.bias", .unit = 0});
    List<std::int32_t> devices(3, 1);
    devices[0] = 0;
    CHECK(entries_of(sequence, devices) == "a:0 b:1 b.weight:0 b.part.bias:0 c:1 ");
}

}  // namespace
