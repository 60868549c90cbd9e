// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/model/walk.hpp>

#include <doctest/doctest.h>

#include "small_tree.hpp"

#include <string>
#include <vector>

using namespace shardwise;

TEST_CASE("walk: visits modules and tensors under full names in torch's order") {
    auto const tree = small::tree();
    std::vector<std::string> seen;
    walk(
        tree,
        [&](std::string_view path, Module const& module, ModuleRole) {
            seen.push_back(std::string(path) + ":" + std::string(module.class_name));
        },
        [&](std::string_view path, Tensor const&) { seen.push_back(std::string(path)); });
    CHECK(seen == std::vector<std::string>{":Model", "embed:Embedding", "embed.weight", "blocks:ModuleList",
                                           "blocks.0:Block", "blocks.0.mask", "blocks.0.cache", "blocks.0.proj:Linear",
                                           "blocks.0.proj.weight", "blocks.0.proj.bias", "blocks.1:Block",
                                           "blocks.1.mask", "blocks.1.cache", "blocks.1.proj:Linear",
                                           "blocks.1.proj.weight", "blocks.1.proj.bias", "head:Linear", "head.weight"});
}

TEST_CASE("walk: passes the role under which a module is used") {
    auto const tree = small::tree();
    int layers = 0;
    walk(
        tree, [&](std::string_view, Module const&, ModuleRole role) { layers += role == ModuleRole::layer ? 1 : 0; },
        [](std::string_view, Tensor const&) {});
    CHECK(layers == 2);
}

TEST_CASE("walk: an empty tree has nothing to visit") {
    ModuleTree const tree;
    int visits = 0;
    walk_tensors(tree, [&](std::string_view, Tensor const&) { ++visits; });
    CHECK(visits == 0);
    CHECK(count_parameters(tree) == 0);
    CHECK(find_tensor(tree, "weight") == nullptr);
}
