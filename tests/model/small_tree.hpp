// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/module_tree.hpp>

/// A tree small enough to count by hand.
namespace small {

using namespace shardwise;

/// Two blocks of one linear with a buffer, an embedding tied to the head.
inline constexpr ModuleTree tree() {
    ModuleTree tree;
    auto const table = tree.add("Embedding", {Tensor{.name = "weight", .shape = {10, 4}, .dtype = Dtype::bf16}});
    auto const linear = tree.add("Linear", {Tensor{.name = "weight", .shape = {4, 4}, .dtype = Dtype::bf16},
                                            Tensor{.name = "bias", .shape = {4}, .dtype = Dtype::bf16}});
    auto const block =
        tree.add("Block",
                 {Tensor{.name = "mask", .shape = {3}, .dtype = Dtype::boolean, .kind = TensorKind::buffer},
                  Tensor{.name = "cache", .shape = {2}, .dtype = Dtype::f32, .kind = TensorKind::transient_buffer}},
                 {{"proj", linear}});
    auto const list = tree.add("ModuleList", {}, {numbered(0, 2, block, ModuleRole::layer)});
    auto const head = tree.add("Linear", {Tensor{.name = "weight", .shape = {10, 4}, .dtype = Dtype::bf16}});
    tree.set_root(tree.add(
        "Model", {}, {{"embed", table, ModuleRole::embedding}, {"blocks", list}, {"head", head, ModuleRole::head}}));
    tree.tie("embed.weight", "head.weight");
    tree.keep_whole("Block");
    return tree;
}

}  // namespace small
