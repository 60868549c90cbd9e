// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The trained elements that compute one token: all of them, except that of the routed experts only as many count as a
/// token chooses. Embedding and head count whole, tied ones once, as model cards do (Mixtral-8x7B 12.9B of 46.7B).
[[nodiscard]] constexpr std::int64_t count_active_parameters(ModuleTree const& tree, ModelConfig const& config) {
    auto const all = count_parameters(tree);
    if (config.experts <= 0 || config.experts_per_token <= 0 || config.experts_per_token >= config.experts) return all;
    // Elements of one body with everything in it, and of the routed experts among them.
    List<std::int64_t> elements(tree.modules().size(), 0);
    List<std::int64_t> routed(tree.modules().size(), 0);
    for (std::size_t id = 0; id < elements.size(); ++id) {
        auto const& module = tree.module(static_cast<ModuleId>(id));
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            auto const& tensor = tree.tensor(module, i);
            if (!tensor.is_parameter()) continue;
            elements[id] += tensor.shape.elements();
            if (tensor.shard.experts > 0) routed[id] += tensor.shape.elements();
        }
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree.child(module, i);
            elements[id] += child.count * elements[child.module];
            routed[id] +=
                child.count * (child.role == ModuleRole::expert ? elements[child.module] : routed[child.module]);
        }
    }
    auto const experts = routed[tree.root()];
    return all - experts + experts / config.experts * config.experts_per_token;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
