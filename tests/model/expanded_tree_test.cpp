// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/expanded_tree.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace {

using namespace shardwise;

Tensor parameter(std::string_view name, std::initializer_list<std::int64_t> shape) {
    Tensor tensor{};
    tensor.name = name;
    tensor.shape = Shape{shape};
    return tensor;
}

/// embed, layers.0 to layers.2 (each with two linears and a norm), head; the head is tied to embed.
ModuleTree decoder() {
    ModuleTree tree;
    auto const embedding = tree.add("Embedding", {parameter("weight", {10, 4})});
    auto const linear = tree.add("Linear", {parameter("weight", {4, 4}), parameter("bias", {4})});
    auto const norm = tree.add("Norm", {parameter("weight", {4})});
    auto const layer = tree.add("Layer", {parameter("scale", {1})}, {{"up", linear}, {"down", linear}, {"norm", norm}});
    auto const layers = tree.add("ModuleList", List<Child>{numbered(0, 3, layer, ModuleRole::layer)});
    tree.set_root(tree.add(
        "Model",
        List<Child>{{"embed", embedding, ModuleRole::embedding}, {"layers", layers}, {"head", embedding}}));
    tree.tie("embed.weight", "head.weight");
    return tree;
}

TEST_CASE("A tree is expanded into ranges in registration order") {
    auto const source = decoder();
    auto const tree = expand(source);
    REQUIRE(tree);
    CHECK(tree->module_count() == 1 + 1 + 1 + 3 * 4 + 1);
    CHECK(tree->tensor_count() == 1 + 3 * 6 + 1);
    CHECK(tree->path(0) == "");
    CHECK(tree->path(2) == "layers");
    CHECK(tree->path(4) == "layers.0.up");
    CHECK(tree->role(3) == ModuleRole::layer);
    CHECK(tree->end(2) == 15);
    CHECK(tree->end(3) == 7);
    CHECK(tree->parent(4) == 3);
    CHECK(tree->parent(0) == ExpandedTree::none);
    CHECK(tree->has_children(3));
    CHECK_FALSE(tree->has_children(4));
    CHECK(tree->class_id(4) == tree->class_id(5));
    CHECK(tree->class_names()[tree->class_id(6)] == "Norm");
    CHECK(tree->first_tensor(3) == 1);
    CHECK(tree->own_end(3) == 2);
    CHECK(tree->subtree_end(3) == 7);
    CHECK(tree->subtree_end(0) == tree->tensor_count());
    CHECK(tree->tensor_path(1) == "layers.0.scale");
    CHECK(tree->tensor_path(19) == "head.weight");
    CHECK(tree->elements()[0] == 40);
}

TEST_CASE("Every tensor is found under its full name and nothing else is") {
    auto const source = decoder();
    auto const tree = expand(source);
    REQUIRE(tree);
    for (ExpandedTree::Index i = 0; i < tree->tensor_count(); ++i) CHECK(tree->find_tensor(tree->tensor_path(i)) == i);
    for (auto const* name :
         {"", "embed", "layers.3.up.weight", "layers.0.up.weights", "layers.01.up.weight", "embed.weight.x"}) {
        CHECK_FALSE(tree->find_tensor(name));
    }
}

TEST_CASE("Ties that share a name are one group, whose first in registration order counts") {
    auto source = decoder();
    source.tie("layers.2.up.bias", "layers.0.down.bias");
    source.tie("layers.1.up.bias", "layers.2.up.bias");
    auto const tree = expand(source);
    REQUIRE(tree);
    REQUIRE(tree->tie_groups().size() == 2);
    std::vector<std::string> names;
    for (auto const tensor : tree->tie_groups()[1]) names.push_back(tree->tensor_path(tensor));
    CHECK(names == std::vector<std::string>{"layers.0.down.bias", "layers.1.up.bias", "layers.2.up.bias"});
    CHECK(tree->duplicates().size() == 3);
    CHECK(tree->is_duplicate(19));
    CHECK_FALSE(tree->is_duplicate(0));
}

TEST_CASE("A tie of no tensor, too many entries and too many elements are refused") {
    auto source = decoder();
    source.tie("embed.weight", "no.such");
    auto const tied = expand(source);
    REQUIRE_FALSE(tied);
    CHECK(tied.error().code() == ErrorCode::unknown_name);
    CHECK(tied.error().place() == "no.such");

    ModuleTree wide;
    auto level = wide.add("Leaf", {parameter("weight", {1})});
    for (int depth = 0; depth < 6; ++depth) level = wide.add("Level", List<Child>{numbered(0, 1000000, level)});
    wide.set_root(level);
    auto const expanded = expand(wide);
    REQUIRE_FALSE(expanded);
    CHECK(expanded.error().code() == ErrorCode::capacity_exceeded);

    ModuleTree heavy;
    auto const leaf = heavy.add("Leaf", {parameter("weight", {std::int64_t{1} << 40U, std::int64_t{1} << 12U})});
    heavy.set_root(heavy.add("Model", List<Child>{numbered(0, 3, leaf)}));
    auto const counted = expand(heavy);
    REQUIRE_FALSE(counted);
    CHECK(counted.error().code() == ErrorCode::size_overflow);
}

TEST_CASE("A tree without modules expands to nothing") {
    ModuleTree const none;
    auto const tree = expand(none);
    REQUIRE(tree);
    CHECK(tree->module_count() == 0);
    CHECK(tree->tensor_count() == 0);
    CHECK_FALSE(tree->find_tensor("weight"));
}

}  // namespace
