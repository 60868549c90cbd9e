// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/plan/plan_reasons.hpp>
#include <shardwise/plan/plan_search.hpp>
#include <shardwise/plan/plan_shortfall.hpp>
#include <shardwise/plan/variant_search.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The most runners-up that a plan lists.
inline constexpr std::size_t most_alternatives = 5;

/// The largest batch that a plan chooses by itself.
inline constexpr std::int64_t most_chosen_batch = 65536;

namespace detail {

[[nodiscard]] inline Result<> check_plan(Model const& model, Topology const& topology, PlanRequest const& request) {
    if (topology.accelerators().empty()) {
        return Error{ErrorCode::no_such_device}
            .at("devices")
            .because("name no accelerator, and a parallel plan runs on nothing else")
            .fix("give --devices like 8xH100-80GB or 4x(8xH100-80GB)");
    }
    if (request.estimate.training && request.estimate.training->convention == MemoryConvention::megatron) {
        return Error{ErrorCode::unsupported}.at("convention")
            .because("is Megatron-LM's report, which knows stages of equally many layers only")
            .fix("use --convention megatron-paper or shardwise");
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
    // With a replica on each device a rank has the least to do.
    job.batch = ceil_divide(job.batch, static_cast<std::int64_t>(topology.accelerators().size()));
    return check_sizes(model, job);
}

/// The best cut of all kinds; null where none fits.
[[nodiscard]] inline FoundCut const* best_cut(std::array<FoundCut, PlanSearch::kinds> const& cuts,
                                              PlanObjective objective) {
    FoundCut const* best = &cuts[0];
    for (auto const& cut : cuts) {
        if (is_better(cut, *best, objective)) best = &cut;
    }
    return best->is_found ? best : nullptr;
}

/// The runners-up: the best of every other kind of parallelism, the least loss first.
[[nodiscard]] inline List<PlanAlternative> list_alternatives(PlanSearch& search,
                                                             std::array<FoundCut, PlanSearch::kinds> const& cuts,
                                                             FoundCut const& chosen) {
    auto const objective = search.request().objective;
    List<FoundCut const*> others;
    for (auto const& cut : cuts) {
        if (&cut == &chosen || !cut.is_found) continue;
        auto place = others.size();
        while (place > 0 && is_better(cut, *others[place - 1], objective)) --place;
        (void)others.insert(others.begin() + place, &cut);
    }
    List<PlanAlternative> alternatives;
    for (std::size_t i = 0; i < others.size() && i < most_alternatives; ++i) {
        auto const& other = *others[i];
        PlanAlternative alternative;
        alternative.degrees = other.degrees;
        alternative.cost = other.cost;
        alternative.largest_rank = search.fullest(other);
        alternative.loss = plan_loss(other, chosen, objective);
        alternative.reason = alternative_reason(other, chosen, objective);
        alternatives.push_back(static_cast<PlanAlternative&&>(alternative));
    }
    return alternatives;
}

/// The batch with the most tokens per second among 1, 2, 4, ... as long as they fit; of equal ones the smallest. Asks
/// the largest first: it mostly has the most, and then the others are soon known to have less.
[[nodiscard]] inline std::int64_t choose_batch(PlanSearch& search, Topology const& topology) {
    std::int64_t largest = 0;
    for (std::int64_t batch = 1; batch <= most_chosen_batch; batch *= 2) {
        search.use_batch(batch);
        if (!check_plan(search.model(), topology, search.request())) break;
        if (!has_cut(search)) break;
        largest = batch;
    }
    std::int64_t best = 1;
    double most = 0.0;
    for (auto batch = largest; batch >= 1; batch /= 2) {
        search.use_batch(batch);
        auto const limit = most > 0.0 ? static_cast<double>(batch) / most : PlanSearch::most_seconds;
        auto const step = search.find_step(limit);
        if (step <= 0.0 || static_cast<double>(batch) / step < most) continue;
        most = static_cast<double>(batch) / step;
        best = batch;
    }
    return best;
}

}  // namespace detail

/// Cuts a model over the accelerators of a topology: tensor-, pipeline-, data- and expert-parallel, in training with
/// ZeRO.
///
/// Every legal cut is considered: degrees up to the model's query heads, layers, sequences and experts whether they
/// divide or not, on as many devices as it takes and on fewer; layouts that keep groups within nodes; stages of
/// consecutive layers wherever they may be cut; batches whole or in pieces. The answer is the best of them under the
/// cost model (plan_cost) among those whose every rank fits its device by the estimator's bytes.
///
/// Training that does not say what it computes again, or whether it is sequence-parallel, is planned with each choice; the
/// alternatives are those of the best.
///
/// Of a batch that is more than sizes are computed for (check_sizes), those cuts are considered whose ranks' shares are
/// not.
///
/// A batch of 0 is chosen where throughput in inference is asked for: of 1, 2, 4, ... the one with the most tokens
/// per second.
///
/// Order   by the objective, then the shorter prefill, then the fewest ranks, then the smaller tp, pp, ep, dp, ZeRO
///         stage and number of micro-batches, then what computes less again
/// Errors  no_such_device without accelerators; out_of_memory, naming the cut that comes closest; as check_request and
///         check_sizes
[[nodiscard]] inline Result<ParallelPlan> plan_parallel(Model const& model, Topology const& topology,
                                                        PlanRequest request) {
    bool const is_free = request.estimate.batch == 0;
    if (is_free) request.estimate.batch = 1;
    if (auto const checked = detail::check_plan(model, topology, request); !checked) return checked.error();
    VariantSearch variants(model, topology, request);
    auto const variant = variants.find_best();
    auto& search = variants.at(variant);
    if (is_free && request.objective == PlanObjective::throughput && !request.estimate.training)
        search.use_batch(detail::choose_batch(search, topology));
    auto const& cuts = search.run();
    auto const* const cut = detail::best_cut(cuts, request.objective);
    if (cut == nullptr) return plan_shortfall(search, topology);
    ParallelPlan plan;
    plan.degrees = cut->degrees;
    plan.recompute = variant.recompute;
    plan.is_sequence_parallel = variant.is_sequence_parallel;
    plan.batch = search.request().estimate.batch;
    plan.stages = search.stages_of(*cut);
    plan.cost = search.price(*cut, plan.stages);
    plan.ranks = search.ranks_of(*cut);
    plan.examined = search.examined();
    plan.too_large = search.too_large();
    plan.alternatives = detail::list_alternatives(search, cuts, *cut);
    plan.reasons = plan_reasons(variants, variant, *cut);
    return plan;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
