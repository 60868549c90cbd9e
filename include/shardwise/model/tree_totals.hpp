// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/model/module_tree.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How often each body is used in the whole model, by module id.
[[nodiscard]] constexpr List<std::int64_t> count_instances(ModuleTree const& tree) {
    List<std::int64_t> instances(tree.modules().size(), 0);
    if (instances.empty()) return instances;
    instances[tree.root()] = 1;
    // Children are added before their parents, so descending ids visit every parent first.
    for (std::size_t id = instances.size(); id-- > 0;) {
        auto const& module = tree.module(static_cast<ModuleId>(id));
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree.child(module, i);
            instances[child.module] += instances[id] * child.count;
        }
    }
    return instances;
}

namespace detail {

/// The number that a path component spells, or nothing.
[[nodiscard]] constexpr Optional<std::int64_t> parse_number(std::string_view text) {
    if (text.empty() || text.size() > 9) return std::nullopt;
    if (text.size() > 1 && text[0] == '0') return std::nullopt;
    std::int64_t value = 0;
    for (char const digit : text) {
        if (digit < '0' || digit > '9') return std::nullopt;
        value = value * 10 + (digit - '0');
    }
    return value;
}

}  // namespace detail

/// The child of `module` that a path component names, a number within a run included; null where there is none.
[[nodiscard]] constexpr Child const* find_child(ModuleTree const& tree, Module const& module, std::string_view name) {
    auto const number = detail::parse_number(name);
    for (std::uint32_t i = 0; i < module.child_count; ++i) {
        auto const& child = tree.child(module, i);
        if (!child.name.empty() ? child.name == name
                                : number && *number >= child.first && *number < child.first + child.count) {
            return &child;
        }
    }
    return nullptr;
}

/// The tensor that a full dotted name ("model.layers.3.mlp.up_proj.weight") names; null where there is none.
[[nodiscard]] constexpr Tensor const* find_tensor(ModuleTree const& tree, std::string_view full_name) {
    if (tree.modules().empty()) return nullptr;
    Module const* module = &tree.module(tree.root());
    while (true) {
        auto const dot = full_name.find('.');
        if (dot == std::string_view::npos) break;
        auto const* child = find_child(tree, *module, full_name.substr(0, dot));
        if (child == nullptr) break;
        module = &tree.module(child->module);
        full_name.remove_prefix(dot + 1);
    }
    for (std::uint32_t i = 0; i < module->tensor_count; ++i) {
        if (tree.tensor(*module, i).name == full_name) return &tree.tensor(*module, i);
    }
    return nullptr;
}

/// The sum of `measure(tensor)` over every tensor of the model, each tied group once.
template <class Measure>
[[nodiscard]] constexpr std::int64_t sum_tensors(ModuleTree const& tree, Measure measure) {
    auto const instances = count_instances(tree);
    std::int64_t total = 0;
    for (std::size_t id = 0; id < instances.size(); ++id) {
        if (instances[id] == 0) continue;
        auto const& module = tree.module(static_cast<ModuleId>(id));
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            total += instances[id] * static_cast<std::int64_t>(measure(tree.tensor(module, i)));
        }
    }
    for (auto const& tie : tree.ties()) {
        if (auto const* other = find_tensor(tree, tie.other)) total -= static_cast<std::int64_t>(measure(*other));
    }
    return total;
}

/// The number of trained elements: tied parameters once, buffers not at all.
[[nodiscard]] constexpr std::int64_t count_parameters(ModuleTree const& tree) {
    return sum_tensors(tree, [](Tensor const& tensor) {
        return tensor.is_parameter() ? tensor.shape.elements() : std::int64_t{0};
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
