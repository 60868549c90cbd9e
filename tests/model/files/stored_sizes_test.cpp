// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/stored_sizes.hpp>
#include <shardwise/model/walk.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;

/// Two layers of three experts with a weight of two bf16 numbers each, and a tied head.
ModuleTree small_tree() {
    ModuleTree tree;
    auto const name = tree.names().join("wei", "ght");
    auto const expert = tree.add("Expert", {Tensor{.name = name, .shape = {2}, .dtype = Dtype::bf16}});
    auto const experts = tree.add("ModuleList", {numbered(0, 3, expert, ModuleRole::expert)});
    auto const layer = tree.add("Layer", {}, {{"experts", experts}});
    auto const layers = tree.add("ModuleList", {numbered(0, 2, layer, ModuleRole::layer)});
    tree.set_root(tree.add("Model", {}, {{"layers", layers}, {"first", expert}, {"head", expert, ModuleRole::head}}));
    tree.tie("first.weight", "head.weight");
    tree.keep_whole("Layer");
    return tree;
}
std::vector<std::pair<std::string, std::int64_t>> sizes(ModuleTree const& tree) {
    std::vector<std::pair<std::string, std::int64_t>> out;
    walk_tensors(tree,
                 [&](std::string_view name, Tensor const& tensor) { out.emplace_back(name, tensor.bytes().count()); });
    return out;
}

}  // namespace

TEST_CASE("a tree without stored sizes is copied as it is, names included") {
    auto source = std::make_unique<ModuleTree>(small_tree());
    auto const wanted = sizes(*source);
    TreeTensors const tensors(*source);
    REQUIRE(tensors.size() == 8);
    auto const copy = with_stored_sizes(tensors, std::vector<StoredTensor>(8));
    source.reset();
    CHECK(sizes(copy) == wanted);
    CHECK(copy.modules().size() == 5);
    CHECK(copy.no_split_classes().front() == "Layer");
    REQUIRE(copy.ties().size() == 1);
    CHECK(copy.ties()[0].other == "head.weight");
}

TEST_CASE("layers that are stored alike stay a run, other experts split theirs") {
    auto const tree = small_tree();
    TreeTensors const tensors(tree);
    std::vector<StoredTensor> stored(8, StoredTensor{8, Dtype::f32, false});
    auto const alike = with_stored_sizes(tensors, stored);
    CHECK(alike.modules().size() == 5);
    CHECK(sizes(alike)[0].second == 8);
    CHECK(find_tensor(alike, "layers.1.experts.2.weight")->dtype == Dtype::f32);
    CHECK(find_tensor(alike, "layers.1.experts.2.weight")->stored_bytes < 0);

    stored[4] = {3, Dtype::bf16, true};  // layers.1.experts.1
    auto const split = with_stored_sizes(tensors, stored);
    auto const list = sizes(split);
    for (std::size_t i = 0; i < list.size(); ++i) CHECK(list[i].second == (i == 4 ? 3 : 8));
    CHECK(list[4].first == "layers.1.experts.1.weight");
    CHECK(find_tensor(split, "layers.1.experts.1.weight")->stored_bytes == 3);
    auto const& layers = split.module(split.child(split.module(split.root()), 0).module);
    REQUIRE(layers.child_count == 2);
    CHECK(split.child(layers, 1).first == 1);
    CHECK(split.child(layers, 1).role == ModuleRole::layer);
    auto const& experts = split.module(split.child(split.module(split.child(layers, 1).module), 0).module);
    CHECK(experts.child_count == 3);
    CHECK(split.child(experts, 2).role == ModuleRole::expert);
}

TEST_CASE("bytes that do not follow from shape and dtype are kept") {
    auto const tree = small_tree();
    TreeTensors const tensors(tree);
    std::vector<StoredTensor> stored(8);
    stored[6] = {5, Dtype::f8_e4m3, false};
    auto const copy = with_stored_sizes(tensors, stored);
    CHECK(find_tensor(copy, "first.weight")->bytes().count() == 5);
    CHECK(find_tensor(copy, "first.weight")->dtype == Dtype::f8_e4m3);
    CHECK(find_tensor(copy, "head.weight")->bytes().count() == 4);
}
