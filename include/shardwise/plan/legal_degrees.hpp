// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/memory/check_request.hpp>
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

/// The numbers of micro-batches that a rank's batch may be cut into, the fewest first: micro-batches of 1, 2, 4, ... sequences, or
/// all of it. In inference a batch is only cut to fill a pipeline.
[[nodiscard]] inline List<std::int64_t> micro_batch_counts(std::int64_t batch, std::int64_t pp, bool is_training) {
    List<std::int64_t> counts{1};
    if (!is_training && pp == 1) return counts;
    std::int64_t size = 1;
    while (size * 2 < batch) size *= 2;
    for (; size >= 1 && batch > 1; size /= 2) counts.push_back(ceil_divide(batch, size));
    return counts;
}

/// True for tensor-parallel degrees that other engines run too: each rank has as many query heads as any other, and as
/// many key-value heads, or one that equally many ranks hold. Latent attention has no key-value heads to divide.
///
/// Source  vLLM 0.6: ModelConfig.verify_with_parallel_config (heads), QKVParallelLinear (key-value heads)
[[nodiscard]] constexpr bool is_even_tp(ModelConfig const& config, std::int64_t tp) {
    if (config.heads > 0 && config.heads % tp != 0) return false;
    bool const has_none = config.kv_heads < 1 || config.kv_lora_rank > 0;
    return has_none || config.kv_heads % tp == 0 || tp % config.kv_heads == 0;
}
/// True for expert-parallel degrees that leave every rank equally many experts.
[[nodiscard]] constexpr bool is_even_ep(ModelConfig const& config, std::int64_t ep) {
    return config.experts < 1 || config.experts % ep == 0;
}
[[nodiscard]] constexpr bool is_even(ModelConfig const& config, PlanDegrees const& degrees) {
    return is_even_tp(config, degrees.tp) && is_even_ep(config, degrees.ep);
}

/// How batches may be cut into micro-batches.
struct MicroBatchChoices {
    bool is_training = false;
    /// The only number of micro-batches, 0 where it is free.
    std::int64_t pinned = 0;

    [[nodiscard]] List<std::int64_t> of(std::int64_t batch, std::int64_t pp) const {
        return pinned > 0 ? List<std::int64_t>{pinned} : micro_batch_counts(batch, pp, is_training);
    }
    /// The smallest micro-batches.
    [[nodiscard]] std::int64_t most(std::int64_t batch, std::int64_t pp) const {
        return pinned > 0 ? pinned : is_training || pp > 1 ? batch : 1;
    }
    /// False where a rank has fewer sequences than it must have micro-batches.
    [[nodiscard]] bool has_enough(std::int64_t batch) const { return batch >= pinned; }
};

/// The degrees that a search looks at: the legal ones, of these the pinned or the even ones. Lists are ascending.
struct DegreeChoices {
    List<std::int64_t> tp;
    List<std::int64_t> ep;
    std::int64_t min_pp = 1;
    std::int64_t max_pp = 1;
    std::int64_t min_dp = 1;
    std::int64_t max_dp = 1;
    MicroBatchChoices micro_batches;

    DegreeChoices() = default;
    DegreeChoices(ModelConfig const& config, DegreeLimits const& most, PlanRequest const& request)
        : max_pp(most.pp), max_dp(most.dp) {
        auto const& pins = request.pins;
        auto const& limits = request.limits;
        if (limits.max_pp > 0 && limits.max_pp < max_pp) max_pp = limits.max_pp;
        auto const max_ep = limits.max_ep > 0 && limits.max_ep < most.ep ? limits.max_ep : most.ep;
        for (std::int64_t degree = 1; degree <= most.tp; ++degree) {
            bool const is_out = !limits.has_tp(degree) || (request.is_even && !is_even_tp(config, degree));
            if (!is_out && pins.tp.value_or(degree) == degree) tp.push_back(degree);
        }
        for (auto const degree : expert_degrees(config.experts, max_ep)) {
            bool const is_out = request.is_even && !is_even_ep(config, degree);
            if (!is_out && pins.ep.value_or(degree) == degree) ep.push_back(degree);
        }
        pin(pins.pp, min_pp, max_pp);
        pin(pins.dp, min_dp, max_dp);
        micro_batches = {request.estimate.training.has_value(), pins.micro_batches.value_or(0)};
    }

    /// How many pipelines there are of at most so many stages.
    [[nodiscard]] std::int64_t pipelines(std::int64_t longest) const {
        return longest < min_pp ? 0 : longest - min_pp + 1;
    }

private:
    /// Leaves the pinned degree only; none where it is not legal.
    static void pin(Optional<std::int64_t> const& degree, std::int64_t& least, std::int64_t& most) {
        if (!degree) return;
        bool const is_legal = *degree >= 1 && *degree <= most;
        least = is_legal ? *degree : 1;
        most = is_legal ? *degree : 0;
    }
};

/// The stages of ZeRO that a job may use: the pinned one, else all that its convention has numbers for; without
/// data-parallel ranks there is nothing to shard.
[[nodiscard]] inline List<std::int32_t> zero_stages(PlanRequest const& request, Dtype dtype, std::int64_t dp) {
    if (!request.estimate.training) return {0};
    if (request.pins.zero) return {*request.pins.zero};
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

/// The smallest batch of 1, 2, 4, ... that has a sequence for each pinned replica and micro-batch.
[[nodiscard]] inline std::int64_t smallest_batch(PlanPins const& pins) {
    // Others are refused.
    auto const capped = [](Optional<std::int64_t> const& pin, std::int64_t most) {
        auto const degree = pin.value_or(1);
        return degree < 1 || degree > most ? 1 : degree;
    };
    auto const dp = capped(pins.dp, max_ranks);
    auto const shares = capped(checked_multiply(dp, capped(pins.ep, max_ranks)).value_or(1), max_ranks);
    auto const sequences = shares * (capped(pins.micro_batches, max_tokens) - 1) + 1;
    std::int64_t batch = 1;
    while (batch < dp || batch < sequences) batch *= 2;
    return batch;
}

/// The kinds of parallelism that degrees use, as bits: tensor, pipeline, data, expert.
[[nodiscard]] inline std::size_t kind_of_parallelism(PlanDegrees const& degrees) {
    auto const bit = [](std::int64_t degree, std::size_t value) { return degree > 1 ? value : std::size_t{0}; };
    return bit(degrees.tp, 1) + bit(degrees.pp, 2) + bit(degrees.dp, 4) + bit(degrees.ep, 8);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
