// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/module_tree.hpp>

#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

template <class OnModule, class OnTensor>
void walk_module(ModuleTree const& tree, ModuleId id, ModuleRole role, std::string& path, OnModule& on_module,
                 OnTensor& on_tensor) {
    auto const& module = tree.module(id);
    on_module(std::string_view{path}, module, role);
    auto const length = path.size();
    auto const extend = [&path, length](std::string_view name) {
        path.resize(length);
        if (length > 0) path += '.';
        path += name;
    };
    for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
        extend(tree.tensor(module, i).name);
        on_tensor(std::string_view{path}, tree.tensor(module, i));
    }
    for (std::uint32_t i = 0; i < module.child_count; ++i) {
        auto const& child = tree.child(module, i);
        if (!child.name.empty()) {
            extend(child.name);
            walk_module(tree, child.module, child.role, path, on_module, on_tensor);
            continue;
        }
        for (std::int32_t k = 0; k < child.count; ++k) {
            extend(std::to_string(child.first + k));
            walk_module(tree, child.module, child.role, path, on_module, on_tensor);
        }
    }
    path.resize(length);
}

}  // namespace detail

/// Visits every module and tensor of the expanded model under its full name: on_module(path, module, role), then
/// on_tensor(path, tensor) for its own tensors, then its children. Names are valid during the call only.
///
/// Order  registration order, depth first: the order of torch's state_dict
template <class OnModule, class OnTensor>
void walk(ModuleTree const& tree, OnModule on_module, OnTensor on_tensor) {
    if (tree.modules().empty()) return;
    std::string path;
    detail::walk_module(tree, tree.root(), ModuleRole::none, path, on_module, on_tensor);
}

/// Visits every tensor under its full name.
template <class OnTensor>
void walk_tensors(ModuleTree const& tree, OnTensor on_tensor) {
    walk(tree, [](std::string_view, Module const&, ModuleRole) {}, on_tensor);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
