// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/span.hpp>
#include <shardwise/plan/step_cost.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The sequences of one micro-batch: the job's batch split over data- and expert-parallel ranks and cut into micro-batches.
[[nodiscard]] constexpr std::int64_t micro_batch_size(EstimateRequest const& request, PlanDegrees const& degrees) {
    return ceil_divide(ceil_divide(request.batch, degrees.dp * degrees.ep), degrees.micro_batches);
}

/// What a plan takes and gives: every stage priced on its site, then put together. Writes each stage's seconds.
///
/// `request.batch` of the model counts the sequences of the whole job. One site stands for all stages where there is
/// only one. `chunks` parts of a stage's layers take turns (the interleaved schedule): the bubble shrinks, messages
/// multiply.
[[nodiscard]] constexpr PlanCost plan_cost(CostModel& model, PlanDegrees const& degrees, Span<PlanStage> stages,
                                           Span<StageSite const> sites, std::int64_t chunks = 1) {
    auto const& request = model.request();
    auto const size = micro_batch_size(request, degrees);
    List<StageCost> costs(stages.size());
    auto const run = [&](Pass pass) {
        for (std::size_t i = 0; i < stages.size(); ++i) {
            auto const& site = site_of(sites, i);
            auto const bodies = model.bodies({.pass = pass, .batch = size, .tp = site.tp, .ep = site.ep}, *site.device);
            costs[i] = stage_cost(model, bodies, stages[i].first_layer, stages[i].layer_count);
        }
        auto setting = step_setting(model, pass);
        setting.chunks = chunks;
        for (std::size_t i = 0; i < stages.size(); ++i)
            stages[i].seconds = stage_seconds({costs.data(), costs.size()}, sites, i, setting);
        return step_cost({costs.data(), costs.size()}, sites, degrees, setting);
    };
    PlanCost cost;
    auto const tokens = static_cast<double>(request.batch);
    auto const pass = step_pass(model.model(), request);
    if (pass == Pass::decode) cost.prefill = run(Pass::prefill);
    cost.step = run(pass);
    auto const per_sequence =
        pass == Pass::decode ? 1.0 : static_cast<double>(context_of(request, model.model().config));
    auto const seconds = cost.step.total();
    if (seconds > 0.0) cost.tokens_per_second = tokens * per_sequence / seconds;
    return cost;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
