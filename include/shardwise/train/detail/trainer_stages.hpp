// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/train/detail/stage_passes.hpp>
#include <shardwise/train/detail/stage_ties.hpp>
#include <shardwise/train/detail/trainer_sizes.hpp>

#include <cstddef>
#include <optional>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a trainer that is a rank of a pipeline has of it.
struct TrainerStages {
    StagePasses passes;
    StageTies ties;

    /// Nothing of a rank that has all layers, where `pipeline` is null. It outlives what is made.
    ///
    /// Errors  as StagePlan, StagePasses::create and StageTies::create
    template <OptimizerRule Rule>
    [[nodiscard]] static Result<std::optional<TrainerStages>> create(HostContext& context, HostCommunicator* pipeline,
                                                                     TrainerSizes<Rule> const& sizes) {
        std::optional<TrainerStages> out;
        if (pipeline == nullptr) return out;
        auto plan = sizes.stages();
        if (!plan) return plan.error();
        auto passes = StagePasses::create(context, *pipeline, *std::move(plan));
        if (!passes) return passes.error();
        auto ties = StageTies::create(context, sizes.program.layout(), [&](std::size_t i) { return sizes.held(i); });
        if (!ties) return ties.error();
        out.emplace(TrainerStages{*std::move(passes), *std::move(ties)});
        return out;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
