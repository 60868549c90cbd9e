// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/span.hpp>
#include <shardwise/memory/training.hpp>
#include <shardwise/plan/stage_cost.hpp>
#include <shardwise/schedule/pipeline_time.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a step does with its stages beside running them.
struct StepSetting {
    Pass pass = Pass::decode;
    OptimizerKind optimizer = OptimizerKind::adam;
    /// Bytes of a trained element, and of its gradient.
    double element_bytes = 2.0;
    /// Parts of a stage's layers (virtual stages): the interleaved schedule.
    std::int64_t chunks = 1;
    Efficiency efficiency{};
};

/// The setting of a model's steps.
[[nodiscard]] constexpr StepSetting step_setting(CostModel const& model, Pass pass) {
    auto const& training = model.request().training;
    return {.pass = pass,
            .optimizer = training ? training->optimizer : OptimizerKind::adam,
            .element_bytes = model.element_bytes(),
            .efficiency = model.efficiency()};
}

[[nodiscard]] constexpr StageSite const& site_of(Span<StageSite const> sites, std::size_t stage) {
    return sites[sites.size() == 1 ? 0 : stage];
}

namespace detail {

/// A micro-batch's message to the next stage: each tensor-parallel rank sends its part of the hidden state and the next
/// stage's ranks gather it; in training the gradient comes back.
///
/// Source  the scatter/gather optimisation: Narayanan et al., SC21 (arXiv 2104.04473), section 4.1
[[nodiscard]] constexpr double stage_message_seconds(StageCost const& stage, StageSite const& site,
                                                     StepSetting const& setting) {
    auto const part = stage.output_bytes / static_cast<double>(site.tp.ranks);
    auto const once = send_seconds(part, site.next, setting.efficiency) +
                      all_gather_seconds(stage.output_bytes, site.tp, setting.efficiency);
    return (setting.pass == Pass::training ? 2.0 : 1.0) * static_cast<double>(setting.chunks) * once;
}

/// Reduction of gradients and ZeRO's gathers of weights, less what overlaps with the arithmetic. Experts have a copy per
/// data-parallel rank, everything else one per expert-parallel rank of these as well.
///
/// Without ZeRO an all-reduce once a step. Stage 1 scatters the sums and gathers updated weights: the same bytes.
/// Stage 2 scatters every micro-batch's gradients; stage 3 gathers weights for both passes of every micro-batch as
/// well, and beside an adapter those of its base, which have no gradients.
///
/// Source  Rajbhandari et al., ZeRO, 2020, section 7
[[nodiscard]] constexpr double data_parallel_seconds(StageCost const& stage, StageSite const& site,
                                                     PlanDegrees const& degrees, StepSetting const& setting) {
    auto const m = static_cast<double>(degrees.micro_batches);
    auto const exchange = [&](double elements, RankGroup const& group) {
        auto const bytes = elements * setting.element_bytes;
        if (group.ranks <= 1 || bytes <= 0.0) return 0.0;
        if (degrees.zero == 0) return all_reduce_seconds(bytes, group, setting.efficiency);
        auto const gather = all_gather_seconds(bytes, group, setting.efficiency);
        return (degrees.zero == 1 ? 2.0 : degrees.zero == 2 ? m + 1.0 : 3.0 * m) * gather;
    };
    auto const gather_frozen = [&](double bytes, RankGroup const& group) {
        bool const is_held_whole = degrees.zero < 3 || group.ranks <= 1 || bytes <= 0.0;
        return is_held_whole ? 0.0 : 2.0 * m * all_gather_seconds(bytes, group, setting.efficiency);
    };
    auto const& weights = stage.weights;
    auto const seconds = exchange(weights.trained_dense(), joined(site.ep, site.dp)) +
                         exchange(weights.trained_experts(), site.dp) +
                         gather_frozen(weights.frozen_dense_bytes, joined(site.ep, site.dp)) +
                         gather_frozen(weights.frozen_expert_bytes, site.dp);
    auto const hideable = degrees.zero < 2    ? stage.backward_seconds
                          : degrees.zero == 2 ? m * stage.backward_seconds
                                              : m * stage.terms.total();
    return seconds - setting.efficiency.overlap * (seconds < hideable ? seconds : hideable);
}

/// The optimizer reads and writes its states and the fp32 weights, reads the gradient and writes the model's weights.
[[nodiscard]] constexpr double optimizer_seconds(StageCost const& stage, StageSite const& site,
                                                 PlanDegrees const& degrees, StepSetting const& setting) {
    constexpr std::int64_t sample = 1 << 20U;
    auto const states =
        static_cast<double>(optimizer_state_bytes(setting.optimizer, sample)) / static_cast<double>(sample);
    auto const each =
        2.0 * states + 2.0 * 4.0 + setting.element_bytes + (setting.element_bytes < 4.0 ? setting.element_bytes : 0.0);
    auto const own = (stage.weights.trained_dense() + stage.weights.trained_experts()) /
                     static_cast<double>(degrees.zero >= 1 ? degrees.dp : 1);
    auto const rate = site.device->bandwidth * setting.efficiency.memory;
    return rate > 0.0 ? own * each / rate : 0.0;
}

}  // namespace detail

/// One micro-batch through a stage and on to the next one; in training both ways.
[[nodiscard]] constexpr double stage_seconds(Span<StageCost const> stages, Span<StageSite const> sites,
                                             std::size_t stage, StepSetting const& setting) {
    auto const message =
        stage + 1 < stages.size() ? detail::stage_message_seconds(stages[stage], site_of(sites, stage), setting) : 0.0;
    return stages[stage].terms.total() + message;
}

/// A step from its stages: `micro_batches` pass one stage after another.
///
/// The terms are those of the slowest stage, for every micro-batch; `bubble` is what the step takes longer. A prompt
/// or a training step fills and drains the pipeline: the sum of all stages and m - 1 times the slowest. Decoding
/// keeps it full where there are micro-batches enough: a token's turn takes the sum of all stages or m times the
/// slowest, whichever is longer.
[[nodiscard]] constexpr CostTerms step_cost(Span<StageCost const> stages, Span<StageSite const> sites,
                                            PlanDegrees const& degrees, StepSetting const& setting) {
    CostTerms step;
    if (stages.empty()) return step;
    double sum = 0.0;
    double slowest = -1.0;
    std::size_t critical = 0;
    for (std::size_t i = 0; i < stages.size(); ++i) {
        auto const seconds = stage_seconds(stages, sites, i, setting);
        sum += seconds;
        if (seconds <= slowest) continue;
        slowest = seconds;
        critical = i;
    }
    auto const m = static_cast<double>(degrees.micro_batches);
    step = m * stages[critical].terms;
    step.pipeline += m * (slowest - stages[critical].terms.total());
    auto const pipelined = setting.pass == Pass::decode
                               ? kept_full(sum, slowest, m)
                               : filled_once(sum, slowest, m, static_cast<double>(setting.chunks));
    step.bubble = pipelined - m * slowest;
    step.overhead += setting.efficiency.step_seconds;
    if (setting.pass != Pass::training) return step;
    for (std::size_t i = 0; i < stages.size(); ++i) {
        auto const& site = site_of(sites, i);
        auto const reduce = detail::data_parallel_seconds(stages[i], site, degrees, setting);
        auto const update = detail::optimizer_seconds(stages[i], site, degrees, setting);
        if (reduce > step.data_parallel) step.data_parallel = reduce;
        if (update > step.optimizer) step.optimizer = update;
    }
    return step;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
