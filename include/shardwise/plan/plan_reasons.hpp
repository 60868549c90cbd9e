#pragma once

#include <shardwise/plan/plan_search.hpp>

#include <string>

namespace shardwise::inline v0 {

/// How much worse a cut's objective is than the chosen one's: 0.25 is a quarter more.
[[nodiscard]] inline double plan_loss(FoundCut const& other, FoundCut const& chosen, PlanObjective objective) {
    if (objective == PlanObjective::devices && other.degrees.ranks() != chosen.degrees.ranks())
        return static_cast<double>(other.degrees.ranks()) / static_cast<double>(chosen.degrees.ranks()) - 1.0;
    if (objective == PlanObjective::throughput) return 1.0 - other.cost.tokens_per_second / chosen.cost.tokens_per_second;
    return other.cost.step.total() / chosen.cost.step.total() - 1.0;
}

[[nodiscard]] inline std::string alternative_reason(FoundCut const&, FoundCut const&, PlanObjective) { return {}; }
[[nodiscard]] inline List<std::string> plan_reasons(PlanSearch&, FoundCut const&) { return {}; }

}  // namespace shardwise::inline v0
