// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/weights.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <cstddef>
#include <optional>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where in the model a parameter stands, by its full name, as the estimator sees it; nothing for a name that the model does
/// not have.
[[nodiscard]] inline std::optional<LayerPosition> parameter_position(Model const& model, std::string_view name) {
    auto const& tree = model.tree;
    if (tree.modules().empty()) return std::nullopt;
    auto position = root_position(model.config, tree, model.family);
    auto const* module = &tree.module(tree.root());
    for (auto dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
        auto const part = name.substr(0, dot);
        auto const* const child = find_child(tree, *module, part);
        if (child == nullptr) break;
        position = position.inside(*child, tree.module(child->module));
        auto const number = detail::parse_number(part);
        if (child->role == ModuleRole::layer && number) position.layer = *number;
        module = &tree.module(child->module);
        name.remove_prefix(dot + 1);
    }
    for (std::uint32_t i = 0; i < module->tensor_count; ++i) {
        if (tree.tensor(*module, i).name == name) return position;
    }
    return std::nullopt;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
