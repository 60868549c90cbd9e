// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/module_tree.hpp>

#include <doctest/doctest.h>

#include "small_tree.hpp"

#include <utility>

using namespace shardwise;

TEST_CASE("ModuleTree: keeps bodies, tensors and children in the order in which they were added") {
    auto const tree = small::tree();
    auto const& root = tree.module(tree.root());
    CHECK(root.class_name == "Model");
    REQUIRE(root.child_count == 3);
    CHECK(tree.child(root, 0).name == "embed");
    CHECK(tree.child(root, 2).role == ModuleRole::head);
    auto const& list = tree.module(tree.child(root, 1).module);
    REQUIRE(list.child_count == 1);
    CHECK(tree.child(list, 0) == numbered(0, 2, tree.child(list, 0).module, ModuleRole::layer));
    auto const& block = tree.module(tree.child(list, 0).module);
    CHECK(tree.tensor(block, 1).name == "cache");
    REQUIRE(tree.no_split_classes().size() == 1);
    CHECK(tree.no_split_classes()[0] == "Block");
    CHECK(tree.ties()[0].first == "embed.weight");
}

TEST_CASE("ModuleTree: names of its own arena survive a move") {
    auto const make = [] {
        ModuleTree tree;
        tree.set_root(tree.add(tree.names().join("Made", "Of", "Parts"), {}, {}));
        return tree;
    };
    auto first = make();
    auto const second = std::move(first);
    CHECK(second.module(second.root()).class_name == "MadeOfParts");
}

static_assert([] {
    auto const tree = small::tree();
    return tree.modules().size() == 6 && tree.tensors().size() == 6;
}());
