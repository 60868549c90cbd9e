// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/tree_totals.hpp>

#include <doctest/doctest.h>

#include "small_tree.hpp"

using namespace shardwise;

TEST_CASE("count_parameters: counts runs as often as they repeat, ties once, buffers never") {
    // embedding 40 + 2 * (16 + 4); the head is the embedding.
    CHECK(count_parameters(small::tree()) == 80);
}

TEST_CASE("sum_tensors: measures what it is asked for") {
    auto const tree = small::tree();
    CHECK(sum_tensors(tree, [](Tensor const& tensor) { return tensor.bytes().count(); }) == 80 * 2 + 2 * (3 + 8));
}

TEST_CASE("find_tensor: resolves numbers within runs and nothing else") {
    auto const tree = small::tree();
    REQUIRE(find_tensor(tree, "blocks.1.proj.bias") != nullptr);
    CHECK(find_tensor(tree, "blocks.1.proj.bias")->shape == Shape{4});
    for (auto const* const name : {"blocks.2.proj.bias", "blocks.01.proj.bias", "blocks.-1.proj.bias",
                                   "blocks.proj.bias", "embed", "embed.weight.", "", "blocks.99999999999.proj.bias"}) {
        CHECK_MESSAGE(find_tensor(tree, name) == nullptr, name);
    }
}

TEST_CASE("count_instances: shared bodies add up over their uses") {
    ModuleTree tree;
    auto const leaf = tree.add("Leaf", {Tensor{.name = "w", .shape = {1}}});
    auto const pair = tree.add("Pair", {}, {{"a", leaf}, {"b", leaf}});
    tree.set_root(tree.add("Root", {}, {numbered(0, 3, pair), {"own", leaf}}));
    auto const counts = count_instances(tree);
    CHECK(counts[leaf] == 7);
    CHECK(counts[pair] == 3);
    CHECK(count_parameters(tree) == 7);
}
