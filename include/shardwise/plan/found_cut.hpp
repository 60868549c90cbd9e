// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/plan/parallel_plan.hpp>
#include <shardwise/plan/plan_layout.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A cut that fits, with what it costs.
struct FoundCut {
    PlanDegrees degrees{};
    PlanLayout layout{};
    List<std::int64_t> begins;
    PlanCost cost{};
    bool is_found = false;

    /// Its stages over a model of so many layers, without their times.
    [[nodiscard]] List<PlanStage> stages(std::int64_t layers) const {
        List<PlanStage> all;
        for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
            bool const is_last = i + 2 == begins.size();
            auto const count = (is_last ? layers : begins[i + 1]) - begins[i];
            all.push_back({begins[i], count, i == 0, is_last, 0.0});
        }
        return all;
    }
};

/// True where `a` is the better answer: by the objective, then the shorter prefill, then the fewest ranks, then the
/// smaller tp, pp, ep, dp, ZeRO stage and number of micro-batches, in this order.
[[nodiscard]] inline bool is_better(FoundCut const& a, FoundCut const& b, PlanObjective objective) {
    if (!a.is_found || !b.is_found) return a.is_found;
    if (objective == PlanObjective::devices && a.degrees.ranks() != b.degrees.ranks())
        return a.degrees.ranks() < b.degrees.ranks();
    if (a.cost.step.total() != b.cost.step.total()) return a.cost.step.total() < b.cost.step.total();
    if (a.cost.prefill.total() != b.cost.prefill.total()) return a.cost.prefill.total() < b.cost.prefill.total();
    std::int64_t const one[] = {a.degrees.ranks(), a.degrees.tp,   a.degrees.pp,           a.degrees.ep,
                                a.degrees.dp,      a.degrees.zero, a.degrees.micro_batches};
    std::int64_t const other[] = {b.degrees.ranks(), b.degrees.tp,   b.degrees.pp,           b.degrees.ep,
                                  b.degrees.dp,      b.degrees.zero, b.degrees.micro_batches};
    for (std::size_t i = 0; i < 7; ++i) {
        if (one[i] != other[i]) return one[i] < other[i];
    }
    return false;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
