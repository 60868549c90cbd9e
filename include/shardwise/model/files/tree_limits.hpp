// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/module_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The most modules and tensors, every repetition counted, that a tree from a file may have: five times the largest
/// published model.
inline constexpr std::int64_t max_tree_entries = 1'000'000;

/// The most memory that a tree from a file and its placement may take: a program that reads any file stays below 64 MiB.
///
/// Units  bytes
inline constexpr std::int64_t max_tree_memory = std::int64_t{56} << 20U;

namespace detail {

/// About the bytes that a tree takes, and that its placement takes when modules of `no_split` are kept whole.
[[nodiscard]] inline std::int64_t placement_memory(ModuleTree const& tree, std::span<std::string_view const> no_split) {
    constexpr std::int64_t of_unit = 200;  // PlacementUnit, and entries of the map with their text, less their paths
    struct Units {
        std::int64_t count = 0;
        std::int64_t text = 0;  // of all paths, from the body on
    };
    auto const names =
        static_cast<std::int64_t>(tree.modules().size() * sizeof(Module) + tree.tensors().size() * sizeof(Tensor) +
                                  tree.children().size() * sizeof(Child));
    std::vector<Units> units(tree.modules().size());
    for (std::size_t id = 0; id < units.size(); ++id) {
        auto const& module = tree.module(static_cast<ModuleId>(id));
        auto& sum = units[id];
        bool const is_whole =
            module.child_count == 0 || std::find(no_split.begin(), no_split.end(), module.class_name) != no_split.end();
        if (is_whole) {
            sum.count = 1;
            continue;
        }
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            ++sum.count;
            sum.text += static_cast<std::int64_t>(tree.tensor(module, i).name.size());
        }
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            constexpr std::int64_t digits = 6;
            auto const& child = tree.child(module, i);
            auto const& inner = units[child.module];
            auto const size = child.name.empty() ? digits : static_cast<std::int64_t>(child.name.size());
            sum.count += child.count * inner.count;
            sum.text += child.count * (inner.text + inner.count * (size + 1));
        }
        // (Neither overflows: what is past the limit is not added up further.)
        sum.count = std::min(sum.count, max_tree_memory);
        sum.text = std::min(sum.text, max_tree_memory);
    }
    auto const& all = units[tree.root()];
    return names + all.count * of_unit + 2 * all.text;
}

}  // namespace detail

/// Success where the tree and its placement stay within max_tree_memory when modules of the classes `no_split` are kept
/// whole.
///
/// Errors  capacity_exceeded
[[nodiscard]] inline Result<> check_placement_memory(ModuleTree const& tree,
                                                     std::span<std::string_view const> no_split) {
    if (tree.modules().empty()) return {};
    auto const bytes = detail::placement_memory(tree, no_split);
    if (bytes <= max_tree_memory) return {};
    return Error{ErrorCode::capacity_exceeded}
        .because(
            "the model has more modules and tensors to place than this library plans for: they take too many bytes")
        .got(bytes)
        .at_most(max_tree_memory);
}

/// Success where sizes of all tensors add up within 63 bits, even as 16-byte elements, and the expanded tree is of a
/// sane length. Trees that come from files pass here before anything multiplies their numbers.
///
/// Errors  size_overflow, capacity_exceeded
[[nodiscard]] inline Result<> check_tree_limits(ModuleTree const& tree) {
    constexpr std::int64_t widest_element = 16;
    std::vector<std::int64_t> instances(tree.modules().size(), 0);
    if (instances.empty()) return {};
    auto const too_many = [] {
        return Error{ErrorCode::capacity_exceeded}
            .because("the model has more modules and tensors than this library plans for")
            .at_most(max_tree_entries);
    };
    if (auto const checked = check_placement_memory(tree, tree.no_split_classes()); !checked) return checked;
    instances[tree.root()] = 1;
    std::int64_t entries = 0;
    std::int64_t total = 0;
    for (std::size_t id = instances.size(); id-- > 0;) {
        if (instances[id] == 0) continue;
        auto const& module = tree.module(static_cast<ModuleId>(id));
        // Every count so far is below the limit, and so are tensor counts: the products stay within 63 bits.
        entries += instances[id] * (1 + static_cast<std::int64_t>(module.tensor_count));
        if (entries > max_tree_entries) return too_many();
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            auto const& tensor = tree.tensor(module, i);
            auto const elements = tensor.shape.checked_elements();
            auto const all = elements ? checked_multiply(*elements, instances[id]) : std::nullopt;
            auto const bytes = all ? checked_multiply(*all, widest_element) : std::nullopt;
            auto const sum = bytes ? checked_add(total, *bytes) : std::nullopt;
            if (!sum) {
                return Error{ErrorCode::size_overflow}
                    .at(tensor.name)
                    .because("the sizes of the tensors of this model leave 63 bits");
            }
            total = *sum;
        }
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree.child(module, i);
            instances[child.module] += instances[id] * child.count;
            if (instances[child.module] > max_tree_entries) return too_many();
        }
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
