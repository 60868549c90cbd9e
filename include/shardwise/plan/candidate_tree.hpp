// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/candidate_heap.hpp>
#include <shardwise/plan/micro_batch_prices.hpp>
#include <shardwise/plan/way_finder.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A job for which degrees are collected.
struct CandidateTask {
    PlanRequest const& request;
    ZeroChoices const& zeros;
    DegreeChoices const& choices;
    std::int64_t devices = 0;
    /// The most sequences of a rank.
    std::int64_t max_batch = 0;
    /// Steps that take longer are of no interest.
    double limit = 0.0;
};

/// All degrees that a search may look at, of each kind of parallelism the most promising first: first only the tensor-
/// and expert-parallel groups, whose replicas and pipelines are added where the groups themselves are promising.
class CandidateTree {
public:
    static constexpr std::size_t kinds = 16;

    CandidateTree(MicroBatchPrices& micro_batches, WayFinder& finder)
        : micro_batches_(micro_batches), finder_(finder) {}
    CandidateTree(CandidateTree const&) = delete;
    CandidateTree& operator=(CandidateTree const&) = delete;

    [[nodiscard]] CandidateHeap& heap(std::size_t kind) { return heaps_[kind]; }
    /// All degrees that are legal, and those of them that are known not to fit.
    [[nodiscard]] std::int64_t examined() const { return examined_; }
    [[nodiscard]] std::int64_t too_large() const { return too_large_; }

    /// False where nothing of a task fits, whatever it takes.
    [[nodiscard]] bool may_fit(CandidateTask const& task) {
        bool may = false;
        for (auto const tp : task.choices.tp) {
            for (auto const ep : task.choices.ep) {
                for_each_replicas(task, {.tp = tp, .ep = ep}, task.choices.max_dp, [&](PlanDegrees const& degrees) {
                    if (may) return;
                    auto const batch = rank_batch(task.request.estimate.batch, degrees);
                    auto const& zeros = task.zeros.of(degrees.dp);
                    auto const known = finder_.may_fit(degrees, batch, zeros, longest_pipeline(task, degrees));
                    for (auto pp = static_cast<std::size_t>(task.choices.min_pp); pp <= known.size(); ++pp)
                        may = may || known[pp - 1];
                });
            }
            if (may) break;
        }
        return may;
    }

    /// Begins with the groups of a task.
    void plant(CandidateTask const& task) {
        for (auto& heap : heaps_) heap.clear();
        examined_ = too_large_ = 0;
        auto const& choices = task.choices;
        for (auto const tp : choices.tp) {
            for (auto const ep : choices.ep) {
                if (tp * ep > task.devices) break;
                for (auto dp = choices.min_dp < 2 ? 1 : 2; dp <= 2 && dp <= choices.max_dp; ++dp) {
                    for (auto pp = choices.min_pp < 2 ? 1 : 2; pp <= 2 && pp <= choices.max_pp; ++pp)
                        add_group(task, {.tp = tp, .pp = pp, .dp = dp, .ep = ep});
                }
                for_each_replicas(task, {.tp = tp, .ep = ep}, choices.max_dp, [&](PlanDegrees const& degrees) {
                    examined_ += choices.pipelines(longest_pipeline(task, degrees));
                });
            }
        }
    }

    /// True where a candidate stands for others, which `grow` puts in its place.
    [[nodiscard]] static bool is_branch(PlanCandidate const& candidate) { return candidate.refined < 0; }
    void grow(CandidateTask const& task, PlanCandidate const& branch) {
        PlanDegrees degrees{.tp = branch.tp, .pp = branch.pp, .dp = branch.dp, .ep = branch.ep};
        if (branch.refined == unpriced_groups) {
            auto const pass = micro_batches_.pass_seconds(degrees);
            auto const least = pass < branch.seconds ? branch.seconds : pass;
            if (least <= task.limit) push(task, degrees, least, groups);
            return;
        }
        if (branch.refined == pipelines) return weigh_pipelines(task, degrees, branch.seconds);
        if (branch.refined == weighed_pipelines) return add_pipelines(task, degrees);
        bool const is_replicated = degrees.dp > 1;
        for_each_replicas(task, degrees, is_replicated ? task.choices.max_dp : 1, [&](PlanDegrees const& own) {
            if ((own.dp > 1) != is_replicated) return;
            if (own.pp == 1) return add_pipelines(task, own);
            auto const longest = longest_pipeline(task, own);
            if (longest < shortest_pipeline(task)) return;
            auto const least = micro_batches_.shared_seconds(own, task.request.estimate.batch, own.dp, longest);
            if (least <= task.limit) push(task, own, least < branch.seconds ? branch.seconds : least, pipelines);
        });
    }

private:
    /// What stands for all replicas and pipelines of a group, and for all pipelines of some replicas; where there are
    /// several, degrees of 2 stand for them.
    static constexpr std::int32_t groups = -3;
    static constexpr std::int32_t pipelines = -2;
    /// With micro-batches that fit.
    static constexpr std::int32_t weighed_pipelines = -1;
    /// Groups of which it is not known what a sequence takes that passes all stages.
    static constexpr std::int32_t unpriced_groups = -4;

    void push(CandidateTask const& task, PlanDegrees const& degrees, double seconds, std::int32_t refined) {
        auto const first =
            task.request.objective == PlanObjective::devices ? static_cast<double>(degrees.ranks()) : 0.0;
        heaps_[kind_of_parallelism(degrees)].insert(
            {first, seconds, static_cast<std::int32_t>(degrees.tp), static_cast<std::int32_t>(degrees.pp),
             static_cast<std::int32_t>(degrees.dp), static_cast<std::int32_t>(degrees.ep), refined});
    }

    static std::int64_t longest_pipeline(CandidateTask const& task, PlanDegrees const& degrees) {
        auto const capacity = task.devices / (degrees.tp * degrees.dp * degrees.ep);
        return capacity < task.choices.max_pp ? capacity : task.choices.max_pp;
    }
    /// The fewest stages of those that follow one another, of which there are two at least.
    static std::int64_t shortest_pipeline(CandidateTask const& task) {
        return task.choices.min_pp < 2 ? 2 : task.choices.min_pp;
    }

    /// Calls `visit` for all numbers of replicas of a group that there are devices for; in inference for the fewest
    /// with the same share of the batch.
    template <class Visit>
    static void for_each_replicas(CandidateTask const& task, PlanDegrees degrees, std::int64_t most,
                                  Visit const& visit) {
        std::int64_t previous = 0;
        auto const group = degrees.tp * degrees.ep;
        for (degrees.dp = task.choices.min_dp; degrees.dp <= most && group * degrees.dp <= task.devices; ++degrees.dp) {
            auto const batch = rank_batch(task.request.estimate.batch, degrees);
            if (batch > task.max_batch || !task.choices.micro_batches.has_enough(batch)) continue;
            if (!task.request.estimate.training && batch == previous) continue;
            previous = batch;
            visit(degrees);
        }
    }

    void add_group(CandidateTask const& task, PlanDegrees const& degrees) {
        if (degrees.ranks() > task.devices) return;
        auto const group = degrees.tp * degrees.ep;
        auto const longest = degrees.pp == 1 ? 1 : longest_pipeline(task, degrees);
        auto const most = degrees.dp == 1 ? 1 : task.devices / (group * degrees.pp);
        auto const replicas = most < task.choices.max_dp ? most : task.choices.max_dp;
        auto const shares = replicas * longest < task.devices / group ? replicas * longest : task.devices / group;
        auto const least = micro_batches_.shared_seconds(degrees, task.request.estimate.batch, 1, shares);
        if (least <= task.limit) push(task, degrees, least, unpriced_groups);
    }

    /// The least that a step takes with any number of micro-batches, in a pipeline without its messages.
    double min_seconds(CandidateTask const& task, PlanDegrees degrees) {
        auto const gather = micro_batches_.min_gather(degrees);
        auto const& zeros = task.zeros.of(degrees.dp);
        if (!zeros.empty()) degrees.zero = zeros.front();
        auto const batch = rank_batch(task.request.estimate.batch, degrees);
        bool const is_cut = task.request.estimate.training || degrees.pp > 1;
        auto const rate = micro_batches_.sequence_rate(degrees);
        double least = -1.0;
        for (auto const micro_batches : task.choices.micro_batches.of(batch, is_cut ? 2 : 1)) {
            degrees.micro_batches = micro_batches;
            auto const size = ceil_divide(batch, micro_batches);
            auto const& micro_batch = micro_batches_.at(degrees, size, true);
            auto const seconds = micro_batches_.first_look(degrees, micro_batch, size, rate, gather, false);
            if (least < 0.0 || seconds < least) least = seconds;
        }
        return least;
    }

    /// Puts the pipelines of some replicas back with a bound that knows which micro-batches fit, if any do.
    void weigh_pipelines(CandidateTask const& task, PlanDegrees const& degrees, double seconds) {
        auto whole = degrees;
        whole.pp = longest_pipeline(task, degrees);
        auto const batch = rank_batch(task.request.estimate.batch, degrees);
        auto const least = finder_.least_that_fits(whole, batch, task.zeros.of(degrees.dp), false, false, task.limit);
        if (least < 0.0) {
            too_large_ += whole.pp - shortest_pipeline(task) + 1;
            return;
        }
        if (least <= task.limit) push(task, degrees, least < seconds ? seconds : least, weighed_pipelines);
    }

    /// All pipelines of replicas that may fit, or none.
    void add_pipelines(CandidateTask const& task, PlanDegrees degrees) {
        bool const is_none = degrees.pp == 1;
        auto const longest = is_none ? 1 : longest_pipeline(task, degrees);
        auto const& zeros = task.zeros.of(degrees.dp);
        auto const batch = rank_batch(task.request.estimate.batch, degrees);
        auto const may_fit =
            is_none ? finder_.may_fit(degrees, batch, zeros, 1) : finder_.may_hold(degrees, zeros, longest);
        bool is_known = false;
        if (!is_none) degrees.pp = shortest_pipeline(task);
        for (; degrees.pp <= longest; ++degrees.pp) {
            auto least = -1.0;
            if (may_fit[static_cast<std::size_t>(degrees.pp) - 1]) {
                least = is_none ? min_seconds(task, degrees)
                                : finder_.least_that_fits(degrees, batch, zeros, true, is_known, task.limit);
                is_known = true;
            }
            if (least < 0.0) ++too_large_;
            if (least >= 0.0 && least <= task.limit) push(task, degrees, least, 0);
        }
    }

    MicroBatchPrices& micro_batches_;
    WayFinder& finder_;
    std::array<CandidateHeap, kinds> heaps_;
    std::int64_t examined_ = 0;
    std::int64_t too_large_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
