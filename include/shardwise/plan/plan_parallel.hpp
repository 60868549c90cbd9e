#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/plan/plan_reasons.hpp>
#include <shardwise/plan/plan_search.hpp>
#include <shardwise/plan/plan_shortfall.hpp>

#include <array>
#include <cstddef>

namespace shardwise::inline v0 {

/// The most runners-up that a plan lists.
inline constexpr std::size_t most_alternatives = 5;

namespace detail {

[[nodiscard]] inline Result<> check_plan(Model const& model, Topology const& topology, PlanRequest const& request) {
    if (topology.accelerators().empty()) {
        return Error{ErrorCode::no_such_device}.at("devices").because("name no accelerator, and a parallel plan runs on nothing else")
            .fix("give --devices like 8xH100-80GB or 4x(8xH100-80GB)");
    }
    auto job = request.estimate;
    job.parallel = {.sequence_parallel = job.parallel.sequence_parallel};
    job.micro_batches = 0;
    if (job.training && !request.is_zero_fixed) {
        // Some stage that the convention has numbers for.
        auto const stages = zero_stages(request, job.dtype.value_or(model.config.dtype_or(Dtype::f32)), 2);
        if (!stages.empty()) job.training->zero = stages.front();
    }
    auto const parts = find_parts(model, false);
    if (auto const checked = check_request(job, model.config, parts.layers); !checked) return checked.error();
    return check_sizes(model, job);
}

[[nodiscard]] inline Bytes largest_rank(List<PlanRank> const& ranks) {
    Bytes largest{};
    for (auto const& rank : ranks) {
        if (largest < rank.terms.total()) largest = rank.terms.total();
    }
    return largest;
}

}  // namespace detail

/// Cuts a model over the accelerators of a topology: tensor-, pipeline-, data- and expert-parallel, in training with ZeRO.
///
/// Every legal cut is considered: degrees up to the model's query heads, layers, sequences and experts whether they divide
/// or not, on as many devices as it takes and on fewer; layouts that keep groups within nodes; stages of consecutive layers
/// wherever they may be cut; batches whole or in pieces. The answer is the best of them under the cost model
/// (plan_cost) among those whose every rank fits its device by the estimator's bytes.
///
/// Order   by the objective, then the shorter prefill, then the fewest ranks, then the smaller tp, pp, ep, dp, ZeRO stage
///         and number of micro-batches
/// Errors  no_such_device without accelerators; out_of_memory, naming the cut that comes closest; as check_request and
///         check_sizes
[[nodiscard]] inline Result<ParallelPlan> plan_parallel(Model const& model, Topology const& topology,
                                                        PlanRequest const& request) {
    if (auto const checked = detail::check_plan(model, topology, request); !checked) return checked.error();
    PlanSearch search(model, topology, request);
    auto const& best = search.run();
    std::size_t chosen = 0;
    for (std::size_t kind = 1; kind < best.size(); ++kind) {
        if (is_better(best[kind], best[chosen], request.objective)) chosen = kind;
    }
    auto const& cut = best[chosen];
    if (!cut.is_found) return plan_shortfall(search, topology);
    ParallelPlan plan;
    plan.degrees = cut.degrees;
    plan.stages = search.stages_of(cut);
    plan.cost = search.price(cut, plan.stages);
    plan.ranks = search.ranks_of(cut);
    plan.examined = search.examined();
    plan.too_large = search.too_large();
    List<FoundCut const*> others;
    for (std::size_t kind = 0; kind < best.size(); ++kind) {
        if (kind == chosen || !best[kind].is_found) continue;
        auto place = others.size();
        while (place > 0 && is_better(best[kind], *others[place - 1], request.objective)) --place;
        (void)others.insert(others.begin() + place, &best[kind]);
    }
    for (std::size_t i = 0; i < others.size() && i < most_alternatives; ++i) {
        auto const& other = *others[i];
        PlanAlternative alternative;
        alternative.degrees = other.degrees;
        alternative.cost = other.cost;
        alternative.largest_rank = detail::largest_rank(search.ranks_of(other));
        alternative.loss = plan_loss(other, cut, request.objective);
        alternative.reason = alternative_reason(other, cut, request.objective);
        plan.alternatives.push_back(static_cast<PlanAlternative&&>(alternative));
    }
    plan.reasons = plan_reasons(search, cut);
    return plan;
}

}  // namespace shardwise::inline v0
