// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/memory/training.hpp>
#include <shardwise/plan/parallel_plan.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The largest legal degree of each kind.
struct DegreeLimits {
    std::int64_t tp = 1;
    std::int64_t pp = 1;
    std::int64_t dp = 1;
    std::int64_t ep = 1;
};

/// The limits of a model: its query heads, layers, sequences and experts. They need not divide by the degrees.
[[nodiscard]] inline DegreeLimits degree_limits(ModelConfig const& config, std::int64_t layers, std::int64_t batch,
                                                std::int64_t devices) {
    auto const capped = [devices](std::int64_t most) { return most < 1 ? 1 : most < devices ? most : devices; };
    return {.tp = capped(config.heads), .pp = capped(layers), .dp = capped(batch), .ep = capped(config.experts)};
}

/// The expert-parallel degrees: one rank more must leave the fullest rank fewer experts, else it were a data-parallel
/// one.
[[nodiscard]] inline List<std::int64_t> expert_degrees(std::int64_t experts, std::int64_t most) {
    List<std::int64_t> degrees{1};
    for (std::int64_t ep = 2; ep <= most; ++ep) {
        if (ceil_divide(experts, ep) < ceil_divide(experts, ep - 1)) degrees.push_back(ep);
    }
    return degrees;
}

/// The numbers of pieces that a rank's batch may be cut into, the fewest first: pieces of 1, 2, 4, ... sequences, or
/// all of it. In inference a batch is only cut to fill a pipeline.
[[nodiscard]] inline List<std::int64_t> piece_counts(std::int64_t batch, std::int64_t pp, bool is_training) {
    List<std::int64_t> counts{1};
    if (!is_training && pp == 1) return counts;
    std::int64_t size = 1;
    while (size * 2 < batch) size *= 2;
    for (; size >= 1 && batch > 1; size /= 2) counts.push_back(ceil_divide(batch, size));
    return counts;
}

/// The stages of ZeRO that a job may use: the given one, else all that its convention has numbers for; without
/// data-parallel ranks there is nothing to deal.
[[nodiscard]] inline List<std::int32_t> zero_stages(PlanRequest const& request, Dtype dtype, std::int64_t dp) {
    if (!request.estimate.training) return {0};
    if (request.is_zero_fixed) return {request.estimate.training->zero};
    List<std::int32_t> stages;
    for (std::int32_t zero = 0; zero <= 3; ++zero) {
        auto plan = *request.estimate.training;
        plan.zero = zero;
        if (check_training(plan, request.estimate, dtype) && (stages.empty() || dp > 1)) stages.push_back(zero);
    }
    return stages;
}

/// The stages of ZeRO that a job may use, found once.
struct ZeroChoices {
    List<std::int32_t> with_one;
    List<std::int32_t> with_several;

    ZeroChoices(PlanRequest const& request, Dtype dtype)
        : with_one(zero_stages(request, dtype, 1)), with_several(zero_stages(request, dtype, 2)) {}
    /// With so many data-parallel ranks.
    [[nodiscard]] List<std::int32_t> const& of(std::int64_t dp) const { return dp > 1 ? with_several : with_one; }
};

/// The kinds of parallelism that degrees use, as bits: tensor, pipeline, data, expert.
[[nodiscard]] inline std::size_t kind_of_parallelism(PlanDegrees const& degrees) {
    auto const bit = [](std::int64_t degree, std::size_t value) { return degree > 1 ? value : std::size_t{0}; };
    return bit(degrees.tp, 1) + bit(degrees.pp, 2) + bit(degrees.dp, 4) + bit(degrees.ep, 8);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
