// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/tree_limits.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace shardwise;

namespace {

/// `layers` layers of one weight each.
ModuleTree layered(std::int64_t layers, Shape shape) {
    ModuleTree tree;
    auto const layer = tree.add("Layer", {Tensor{.name = "weight", .shape = shape}});
    tree.set_root(tree.add("Model", List<Child>{numbered(0, layers, layer)}));
    return tree;
}

}  // namespace

TEST_CASE("check_tree_limits: sizes must add up within 63 bits as 16-byte elements, repetitions counted") {
    auto const most = (INT64_MAX / 16) / 4;
    CHECK(check_tree_limits(layered(4, {most})).has_value());
    CHECK(check_tree_limits(layered(5, {most})).error().code() == ErrorCode::size_overflow);
    CHECK(check_tree_limits(layered(1, {most, 5})).error().code() == ErrorCode::size_overflow);
    CHECK(check_tree_limits(layered(1, {INT64_MAX, INT64_MAX})).error().place() == "weight");
    CHECK(check_tree_limits(ModuleTree{}).has_value());
}

TEST_CASE("check_tree_limits: the expanded tree must be of a sane length") {
    // The root, and a module and nine tensors for each layer.
    auto const wide = [](std::int64_t layers) {
        ModuleTree tree;
        List<Tensor> const tensors(9, Tensor{.name = "weight", .shape = {1}});
        auto const layer = tree.add("Layer", tensors, List<Child>{});
        tree.set_root(tree.add("Model", List<Child>{numbered(0, layers, layer)}));
        return check_tree_limits(tree);
    };
    CHECK(wide((max_tree_entries - 1) / 10).has_value());
    CHECK(wide(max_tree_entries / 10).error().code() == ErrorCode::capacity_exceeded);
    // A place for each of so many small modules takes more memory than a file may cost.
    CHECK(check_tree_limits(layered(200'000, {1})).has_value());
    CHECK(check_tree_limits(layered(400'000, {1})).error().code() == ErrorCode::capacity_exceeded);

    // Sixteen levels of a thousand children each: 1000^16 modules in 17 bodies.
    ModuleTree tree;
    auto body = tree.add("Leaf", {}, {});
    for (int level = 0; level < 16; ++level) body = tree.add("Level", List<Child>{numbered(0, 1000, body)});
    tree.set_root(body);
    CHECK(check_tree_limits(tree).error().code() == ErrorCode::capacity_exceeded);
}
