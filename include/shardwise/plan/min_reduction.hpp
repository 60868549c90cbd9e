// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/slot_prices.hpp>
#include <shardwise/plan/step_cost.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What of a training step the reduction of gradients and ZeRO's gathers take at least, wherever the stages are cut:
/// the mean over the stages, of the bytes alone.
struct MinReduction {
    /// With nothing hidden, and the arithmetic of the fastest stages that may hide it.
    double seconds = 0.0;
    double hideable = 0.0;
    /// How much more is hidden where a stage takes a second longer.
    double growth = 1.0;
    double overlap = 0.0;

    /// The least that it and `stages` stages that take so much longer add to a step; each takes `low` to `high` seconds
    /// longer than the fastest, of which `low` is counted elsewhere.
    [[nodiscard]] double added(double low, double high, double stages) const {
        auto longer = low;
        if (stages < overlap * growth && seconds > hideable + growth * low) {
            longer = (seconds - hideable) / growth;
            if (longer > high) longer = high > low ? high : low;
        }
        auto const hidden = hideable + growth * longer;
        return stages * (longer - low) + seconds - overlap * (seconds < hidden ? seconds : hidden);
    }
};

namespace detail {

/// What of a gather no group takes less than that has no more ranks in a node: the bytes, at the wires' rates.
[[nodiscard]] inline double min_gather_seconds(double bytes, RankGroup const& group, Efficiency const& efficiency) {
    if (group.ranks <= 1) return 0.0;
    auto const ranks = static_cast<double>(group.ranks);
    auto inside = wire_of(group.link, group.per_node, efficiency);
    if (group.nodes() <= 1) return inside.seconds(bytes * (1.0 - 1.0 / ranks));
    auto const near = static_cast<double>(group.per_node);
    auto const outside = wire_of(group.network, 2, efficiency);
    if (inside.bandwidth < outside.bandwidth) inside.bandwidth = outside.bandwidth;
    return outside.seconds(bytes * (1.0 / near - 1.0 / ranks)) + inside.seconds(bytes * (1.0 - 1.0 / near));
}

}  // namespace detail

/// How often a step gathers all weights or scatters all gradients.
[[nodiscard]] inline double gathers_of_step(PlanDegrees const& degrees) {
    auto const micro_batches = static_cast<double>(degrees.micro_batches);
    return degrees.zero < 2 ? 2.0 : degrees.zero == 2 ? micro_batches + 1.0 : 3.0 * micro_batches;
}

/// What one gather of a model's trained weights takes at least where no groups are better than those of `site`.
[[nodiscard]] inline double min_gather_seconds(BodyWeights const& weights, StageSite const& site,
                                               StepSetting const& setting) {
    auto const gather = [&](double elements, RankGroup const& group) {
        return detail::min_gather_seconds(elements * setting.element_bytes, group, setting.efficiency);
    };
    return gather(weights.trained_dense(), joined(site.ep, site.dp)) + gather(weights.trained_experts(), site.dp);
}

/// The least reduction of a model that is cut into `degrees.pp` stages and takes `gather` seconds to gather; `prices`
/// are those on the fastest devices.
[[nodiscard]] inline MinReduction min_reduction(SlotPrices const& prices, double gather, PlanDegrees const& degrees,
                                                StepSetting const& setting) {
    auto const share = 1.0 / static_cast<double>(degrees.pp);
    auto const growth = degrees.zero < 2 ? 1.0 : static_cast<double>(degrees.micro_batches);
    return {.seconds = gathers_of_step(degrees) * share * gather,
            .hideable = growth * share * (degrees.zero < 3 ? prices.backward : prices.total),
            .growth = growth,
            .overlap = setting.efficiency.overlap};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
