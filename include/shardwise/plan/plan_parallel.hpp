// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/plan/check_pins.hpp>
#include <shardwise/plan/plan_reasons.hpp>
#include <shardwise/plan/plan_search.hpp>
#include <shardwise/plan/plan_shortfall.hpp>
#include <shardwise/plan/variant_search.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The most runners-up that a plan lists.
inline constexpr std::size_t max_alternatives = 5;

/// The largest batch that a plan chooses by itself.
inline constexpr std::int64_t max_chosen_batch = 65536;

namespace detail {

[[nodiscard]] inline Result<> check_plan(Model const& model, Topology const& topology, PlanRequest const& request) {
    if (topology.accelerators().empty()) {
        return Error{ErrorCode::no_such_device}
            .at("devices")
            .because("name no accelerator, and a parallel plan runs on nothing else")
            .fix("give --devices like 8xH100-80GB or 4x(8xH100-80GB)");
    }
    if (request.estimate.training && request.estimate.training->convention == MemoryConvention::megatron) {
        return Error{ErrorCode::unsupported}
            .at("convention")
            .because("is Megatron-LM's report, which knows stages of equally many layers only")
            .fix("use --convention megatron-paper or shardwise");
    }
    auto const parts = find_parts(model, false);
    auto const devices = static_cast<std::int64_t>(topology.accelerators().size());
    auto const checked_pins =
        check_pins(request, {model.config, parts.layers, devices, DeviceClasses(topology).tensor_refusal()});
    if (!checked_pins) return checked_pins;
    auto job = request.estimate;
    job.parallel = {.sequence_parallel = job.parallel.sequence_parallel};
    job.micro_batches = 0;
    if (job.training) {
        // The pinned stage, else some that the convention has numbers for.
        auto const stages = zero_stages(request, job.dtype.value_or(model.config.dtype_or(Dtype::f32)), 2);
        if (!stages.empty()) job.training->zero = stages.front();
    }
    if (auto const checked = check_request(job, model.config, parts.layers); !checked) return checked.error();
    // With as many replicas as there can be a rank has the least to do.
    auto const& pins = request.pins;
    bool const is_share_pinned = pins.dp && (pins.ep || model.config.experts < 1);
    auto const shares =
        is_share_pinned ? *pins.dp * pins.ep.value_or(1) : devices / (pins.tp.value_or(1) * pins.pp.value_or(1));
    job.batch = ceil_divide(job.batch, shares);
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

/// The runners-up: the best of every other kind of parallelism, and the best even one, the least loss first.
[[nodiscard]] inline List<PlanAlternative> list_alternatives(VariantSearch& variants, PlanVariant const& variant,
                                                             std::array<FoundCut, PlanSearch::kinds> const& cuts,
                                                             FoundCut const& chosen) {
    auto const& config = variants.at(variant).model().config;
    auto const objective = variants.at(variant).request().objective;
    struct Other {
        FoundCut const* cut = nullptr;
        PlanVariant variant{};
    };
    List<Other> others;
    auto const add = [&](Other const& other) {
        auto place = others.size();
        while (place > 0 && is_better(*other.cut, *others[place - 1].cut, objective)) --place;
        (void)others.insert(others.begin() + place, other);
    };
    for (auto const& cut : cuts) {
        if (&cut != &chosen && cut.is_found) add({&cut, variant});
    }
    BestCut even;
    if (!is_even(config, chosen.degrees)) even = variants.find_best(true);
    bool is_listed = !even.cut.is_found;
    for (auto const& other : others)
        is_listed = is_listed || (other.variant == even.variant && other.cut->degrees == even.cut.degrees);
    if (!is_listed) add({&even.cut, even.variant});
    // The best even one stays, wherever it stands.
    auto const is_best_even = [&](Other const& other) {
        return even.cut.is_found && other.variant == even.variant && other.cut->degrees == even.cut.degrees;
    };
    while (others.size() > max_alternatives) {
        auto last = others.size() - 1;
        if (is_best_even(others[last])) --last;
        others.erase(others.begin() + last);
    }
    List<PlanAlternative> alternatives;
    for (auto const& [cut, own] : others) {
        PlanAlternative alternative;
        alternative.degrees = cut->degrees;
        alternative.recompute = own.recompute;
        alternative.is_sequence_parallel = own.is_sequence_parallel;
        alternative.is_even = is_even(config, cut->degrees);
        alternative.cost = cut->cost;
        alternative.largest_rank = fullest_rank(variants.at(own).ranks_of(*cut));
        alternative.loss = plan_loss(*cut, chosen, objective);
        alternative.reason = alternative_reason(*cut, chosen, objective);
        alternatives.push_back(static_cast<PlanAlternative&&>(alternative));
    }
    return alternatives;
}

/// The batch with the most tokens per second among 1, 2, 4, ... that the pins allow, as long as they fit; of equal ones
/// the smallest. Asks the largest first: it mostly has the most, and then the others are soon known to have less.
[[nodiscard]] inline std::int64_t choose_batch(PlanSearch& search, Topology const& topology) {
    std::int64_t largest = 0;
    auto const smallest = smallest_batch(search.request().pins);
    for (auto batch = smallest; batch <= max_chosen_batch; batch *= 2) {
        search.use_batch(batch);
        if (!check_plan(search.model(), topology, search.request())) break;
        if (!has_cut(search)) break;
        largest = batch;
    }
    auto best = smallest;
    double most = 0.0;
    for (auto batch = largest; batch >= smallest; batch /= 2) {
        search.use_batch(batch);
        auto const limit = most > 0.0 ? static_cast<double>(batch) / most : PlanSearch::max_seconds;
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
/// consecutive layers wherever they may be cut; batches whole or in micro-batches. The answer is the best of them under the
/// cost model (plan_cost) among those whose every rank fits its device by the estimator's bytes.
///
/// What the request pins stays as it is (PlanPins), and `is_even` leaves degrees that other engines run too. Of the
/// alternatives the best even plan is one, unless the plan is even itself.
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
/// Errors  no_such_device without accelerators; invalid_argument for pins that are not legal; out_of_memory, naming the cut that comes closest; as check_request and
///         check_sizes
[[nodiscard]] inline Result<ParallelPlan> plan_parallel(Model const& model, Topology const& topology,
                                                        PlanRequest request) {
    bool const is_free = request.estimate.batch == 0;
    if (is_free) request.estimate.batch = smallest_batch(request.pins);
    if (auto const checked = detail::check_plan(model, topology, request); !checked) return checked.error();
    VariantSearch variants(model, topology, request);
    auto const variant = variants.find_best().variant;
    auto& search = variants.at(variant);
    if (is_free && request.objective == PlanObjective::throughput && !request.estimate.training)
        search.use_batch(detail::choose_batch(search, topology));
    // Copied: the best even cut is looked for by the same searches.
    auto const cuts = search.run();
    auto const* const cut = detail::best_cut(cuts, request.objective);
    if (cut == nullptr) return plan_shortfall(search, topology);
    ParallelPlan plan;
    plan.degrees = cut->degrees;
    plan.recompute = variant.recompute;
    plan.is_sequence_parallel = variant.is_sequence_parallel;
    plan.is_even = is_even(model.config, cut->degrees);
    plan.batch = search.request().estimate.batch;
    plan.stages = search.stages_of(*cut);
    plan.cost = search.price(*cut, plan.stages);
    plan.ranks = search.ranks_of(*cut);
    plan.examined = search.examined();
    plan.too_large = search.too_large();
    plan.reasons = plan_reasons(variants, variant, *cut);
    plan.alternatives = detail::list_alternatives(variants, variant, cuts, *cut);
    return plan;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
