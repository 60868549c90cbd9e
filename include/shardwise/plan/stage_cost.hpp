// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/span.hpp>
#include <shardwise/cost/cost_model.hpp>
#include <shardwise/plan/parallel_plan.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where a stage runs: the slowest device of its ranks, and the groups that its ranks stand in.
struct StageSite {
    Device const* device = nullptr;
    RankGroup tp{};
    RankGroup ep{};
    RankGroup dp{};
    /// To the next stage's ranks; of the last stage nothing.
    Link next{};
};

/// One micro-batch through a stage, and what its fullest rank holds.
struct StageCost {
    /// In training both passes; without messages to other stages.
    CostTerms terms{};
    /// Of `terms`, the backward pass.
    double backward_seconds = 0.0;
    /// What the stage hands to the next one.
    double output_bytes = 0.0;
    BodyWeights weights{};

    constexpr StageCost& operator+=(StageCost const& other) {
        terms += other.terms;
        backward_seconds += other.backward_seconds;
        output_bytes = other.output_bytes;
        weights += other.weights;
        return *this;
    }
};

/// The sum over the blocks of layers [first, first + count) and of what stands beside them (ModelParts::for_each_block).
[[nodiscard]] constexpr StageCost stage_cost(CostModel const& model, Span<BlockPrice const> bodies,
                                             std::int64_t first_layer, std::int64_t layer_count) {
    StageCost stage;
    auto const add = [&](std::size_t body, std::int64_t count) {
        auto const& price = bodies[body];
        auto const factor = static_cast<double>(count);
        stage += {.terms = factor * price.terms,
                  .backward_seconds = factor * price.backward_seconds,
                  .output_bytes = price.output_bytes,
                  .weights = factor * price.weights};
    };
    model.parts().for_each_block(model.model().program, first_layer, first_layer + layer_count, add);
    return stage;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
