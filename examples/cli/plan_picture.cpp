// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/plan/picture_of_plan.hpp>

#include "model_facts.hpp"
#include "plan_answer.hpp"
#include "text.hpp"

namespace shardwise::cli {

Picture plan_picture(PlanAnswer const& answer) {
    auto picture =
        picture_of(answer.plan.value_or(ParallelPlan{}), answer.topology, answer.request.estimate.utilization);
    picture.title = answer.loaded.name + ", " + short_count(count_parameters(answer.loaded.model.tree)) + " parameters";
    picture.subtitle = describe_devices(answer.topology) + "; " + question_of(answer.loaded, answer.asked()) +
                       "; objective " + std::string(shardwise::name_of(answer.request.objective));
    picture.is_fitting = answer.plan.has_value();
    if (!answer.plan) {
        picture.verdict = "does not fit: " + answer.reason;
        for (auto const& fix : answer.fixes) picture.notes.push_back("It would fit: " + fix.text);
        return picture;
    }
    auto const& cost = answer.plan->cost;
    picture.verdict = describe_degrees(answer.plan->degrees) + ": " + duration(cost.step.total()) + " " +
                      std::string(step_words(answer).once) + ", " +
                      grouped(static_cast<std::int64_t>(cost.tokens_per_second + 0.5)) + " tokens per second";
    return picture;
}

}  // namespace shardwise::cli
