// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/training_layout.hpp>
#include <shardwise/executor/training/training_weights.hpp>
#include <shardwise/train/sharded_optimizer.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What an optimizer changes of weights, in the layout's order.
[[nodiscard]] inline List<OptimizedParameter> optimized_parameters(TrainingLayout const& layout,
                                                                   TrainingWeights& weights) {
    List<OptimizedParameter> out;
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
        auto const& parameter = layout.parameters()[i];
        out.push_back({parameter.name, weights.values(i), decays_weight(parameter.name, parameter.tensor->shape.rank()),
                       weights.shares().is_shared() ? parameter.elements : 0, weights.halves(i)});
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
