// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The elements of the embedding, where no head shares them.
[[nodiscard]] constexpr std::int64_t count_embedding(ModuleTree const& tree) {
    if (!tree.ties().empty() || tree.modules().empty()) return 0;
    std::int64_t elements = 0;
    for (auto const& child : tree.children()) {
        if (child.role != ModuleRole::embedding) continue;
        auto const& module = tree.module(child.module);
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) elements += tree.tensor(module, i).shape.elements();
    }
    return elements;
}

/// The trained elements that compute one token: all of them, except that of the routed experts only as many count as a
/// token chooses. The head counts whole. The embedding, of which a token reads one row, counts as the model's publisher
/// counts it: Mistral and Qwen have it in (Mixtral-8x7B 12.9B of 46.7B, Qwen3-30B-A3B 3.3B), DeepSeek and OpenAI do not
/// (`ModelConfig::active_embedding`; DeepSeek-V3 36.6B, gpt-oss-120b 5.13B); tied to the head it counts once.
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
    auto const left_out = config.active_embedding ? 0 : count_embedding(tree);
    return all - left_out - experts + experts / config.experts * config.experts_per_token;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
