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

/// The sum over the blocks of layers [first, first + count) and of what stands beside them: the blocks before the first
/// layer with the first, others with the layer before them.
[[nodiscard]] constexpr StageCost stage_cost(CostModel const& model, Span<BlockPrice const> bodies,
                                             std::int64_t first_layer, std::int64_t layer_count) {
    StageCost stage;
    auto const end = first_layer + layer_count;
    auto const last = model.layers() > 0 ? model.layers() - 1 : 0;
    std::int64_t passed = 0;
    auto const add = [&](std::int32_t body, std::int64_t count) {
        auto const& price = bodies[static_cast<std::size_t>(body)];
        auto const factor = static_cast<double>(count);
        stage += {.terms = factor * price.terms,
                  .backward_seconds = factor * price.backward_seconds,
                  .output_bytes = price.output_bytes,
                  .weights = factor * price.weights};
    };
    for (auto const& block : model.model().program.blocks()) {
        if (!block.is_numbered) {
            auto const beside = passed == 0 ? 0 : passed - 1 < last ? passed - 1 : last;
            if ((beside >= first_layer && beside < end) || model.layers() == 0) add(block.body, 1);
            continue;
        }
        auto const from = passed < first_layer ? first_layer : passed;
        passed += block.count;
        auto const to = passed < end ? passed : end;
        if (from < to) add(block.body, to - from);
    }
    return stage;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
