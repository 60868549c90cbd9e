// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/topology.hpp>
#include <shardwise/memory/check_sizes.hpp>
#include <shardwise/plan/parallel_plan.hpp>
#include <shardwise/plan/rank_classes.hpp>
#include <shardwise/plan/rank_memory.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The sequences that one rank computes: the job's batch split over data- and expert-parallel ranks.
[[nodiscard]] inline std::int64_t rank_batch(std::int64_t batch, PlanDegrees const& degrees) {
    return ceil_divide(batch, degrees.dp * degrees.ep);
}

/// The most of a job's sequences that sizes are computed for on one rank; 0 where it is not one.
[[nodiscard]] inline std::int64_t largest_counted_batch(Model const& model, EstimateRequest job) {
    if (check_sizes(model, job)) return INT64_MAX;
    std::int64_t good = 0;
    auto bad = job.batch;
    while (bad - good > 1) {
        job.batch = good + (bad - good) / 2;
        (check_sizes(model, job) ? good : bad) = job.batch;
    }
    return good;
}

/// The estimator's request for one rank of a plan.
[[nodiscard]] inline EstimateRequest rank_request(EstimateRequest const& job, PlanDegrees const& degrees) {
    auto request = job;
    request.batch = rank_batch(job.batch, degrees);
    request.parallel = {.tp = degrees.tp,
                        .pp = degrees.pp,
                        .ep = degrees.ep,
                        .dp = degrees.dp,
                        .sequence_parallel = job.parallel.sequence_parallel};
    request.micro_batches = degrees.micro_batches;
    if (request.training) request.training->zero = degrees.zero;
    return request;
}

/// The memory of every class of ranks under one cut.
struct CutMemory {
    RankClasses classes;
    List<RankMemory> ranks;
};

/// Makes the memory of cuts; what ranks hold of the model is kept for the cuts that come after.
class CutMemories {
public:
    /// `like` are those of a job of the same model whose ranks hold the same weights, and outlive these.
    CutMemories(Model const& model, EstimateRequest const& job, ModelParts const& parts, LayerSlots const& slots,
                CutMemories* like = nullptr)
        : model_(model),
          job_(job),
          parts_(parts),
          slots_(slots),
          like_(like),
          splits_(find_splits(model, parts)),
          running_(1024) {}

    [[nodiscard]] CutMemory of(PlanDegrees const& degrees) {
        auto const request = rank_request(job_, degrees);
        auto const micro_batch = micro_batch_of(prefill_request(model_, request));
        auto const rows = largest_step_of(Phase::prefill, micro_batch, model_.config).tokens();
        CutMemory cut;
        cut.classes = find_rank_classes(splits_, degrees.tp, degrees.ep, model_.config.experts,
                                        request.parallel.sequence_parallel ? rows : 0);
        for (auto const& place : cut.classes.places)
            cut.ranks.push_back(RankMemory(model_, request, parts_, slots_, entry(request, place).weights,
                                           bodies(request, place), place));
        return cut;
    }

    [[nodiscard]] ModelParts const& parts() const { return parts_; }

    /// What the kinds of slots hold of the model on the first rank of a group.
    [[nodiscard]] RankWeights const& weights(PlanDegrees const& degrees) {
        if (like_ != nullptr) return like_->weights(degrees);
        auto const* const known = find(degrees.tp, degrees.ep, {});
        return known != nullptr ? known->weights : entry(rank_request(job_, degrees), {}).weights;
    }
    /// What every body of the program takes while it runs on a rank of the request's groups.
    [[nodiscard]] List<StageNeeds> const& bodies(EstimateRequest const& request, RankPlace const& place) {
        auto const micro_batch = micro_batch_of(request);
        auto& known =
            running_[static_cast<std::size_t>(request.parallel.tp * 31 + request.parallel.ep + 7 * micro_batch.batch) %
                     running_.size()];
        for (auto const& entry : known) {
            bool const is_cut = entry.tp == request.parallel.tp && entry.ep == request.parallel.ep;
            if (is_cut && entry.batch == micro_batch.batch && entry.place == place) return entry.bodies;
        }
        known.push_back({request.parallel.tp, request.parallel.ep, micro_batch.batch, place,
                         body_needs(model_, parts_, micro_batch, place)});
        return known.back().bodies;
    }

private:
    struct Entry {
        std::int64_t tp = 0;
        std::int64_t ep = 0;
        RankPlace place{};
        RankWeights weights;
    };

    struct Running {
        std::int64_t tp = 0;
        std::int64_t ep = 0;
        std::int64_t batch = 0;
        RankPlace place{};
        List<StageNeeds> bodies;
    };

    Entry const* find(std::int64_t tp, std::int64_t ep, RankPlace const& place) const {
        if (by_tp_.size() <= static_cast<std::size_t>(tp)) return nullptr;
        for (auto const& entry : by_tp_[static_cast<std::size_t>(tp)]) {
            if (entry.ep == ep && entry.place == place) return &entry;
        }
        return nullptr;
    }
    Entry const& entry(EstimateRequest const& request, RankPlace const& place) {
        if (like_ != nullptr) return like_->entry(request, place);
        if (auto const* const known = find(request.parallel.tp, request.parallel.ep, place); known != nullptr)
            return *known;
        auto const tp = static_cast<std::size_t>(request.parallel.tp);
        if (by_tp_.size() <= tp) by_tp_.resize(tp + 1);
        auto& known = by_tp_[tp];
        Entry entry{request.parallel.tp, request.parallel.ep, place,
                    weigh_rank(model_, request, parts_, slots_, place)};
        known.push_back(static_cast<Entry&&>(entry));
        return known.back();
    }

    Model const& model_;
    EstimateRequest const& job_;
    ModelParts const& parts_;
    LayerSlots const& slots_;
    CutMemories* like_;
    List<GrainedSplit> splits_;
    List<List<Entry>> by_tp_;
    List<List<Running>> running_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
