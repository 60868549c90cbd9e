// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/tree_totals.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The module that a dotted path names from `from` on; a `*` is any one of numbered children, an empty path `from` itself. Null where
/// there is none.
[[nodiscard]] constexpr Module const* find_module(ModuleTree const& tree, Module const* from, std::string_view path) {
    while (from != nullptr && !path.empty()) {
        auto const dot = path.find('.');
        auto const part = path.substr(0, dot);
        Child const* next = nullptr;
        if (part != "*") {
            next = find_child(tree, *from, part);
        } else {
            for (std::uint32_t i = 0; i < from->child_count && next == nullptr; ++i) {
                auto const& child = tree.child(*from, i);
                if (child.name.empty() && child.count > 0) next = &child;
            }
        }
        from = next == nullptr ? nullptr : &tree.module(next->module);
        path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
    }
    return from;
}
/// The same from the root on.
[[nodiscard]] constexpr Module const* find_module(ModuleTree const& tree, std::string_view path) {
    return tree.modules().empty() ? nullptr : find_module(tree, &tree.module(tree.root()), path);
}

/// The stored tensor of this name among a module's own; null where there is none.
[[nodiscard]] constexpr Tensor const* find_own_tensor(ModuleTree const& tree, Module const& module,
                                                      std::string_view name) {
    for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
        auto const& tensor = tree.tensor(module, i);
        if (tensor.name == name && tensor.kind != TensorKind::transient_buffer) return &tensor;
    }
    return nullptr;
}

/// The stored tensor that a parameter's dotted name means from `from` on, after a / from the root on; null where there is none.
[[nodiscard]] constexpr Tensor const* find_parameter(ModuleTree const& tree, Module const& from, std::string_view name) {
    if (name.starts_with('/')) return find_parameter(tree, tree.module(tree.root()), name.substr(1));
    auto const dot = name.rfind('.');
    auto const* const owner = dot == std::string_view::npos ? &from : find_module(tree, &from, name.substr(0, dot));
    if (owner == nullptr) return nullptr;
    return find_own_tensor(tree, *owner, dot == std::string_view::npos ? name : name.substr(dot + 1));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
