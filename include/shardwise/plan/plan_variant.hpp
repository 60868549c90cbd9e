// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/plan/parallel_plan.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How training computes its blocks, whatever the degrees.
struct PlanVariant {
    Recompute recompute = Recompute::none;
    bool is_sequence_parallel = false;

    friend constexpr bool operator==(PlanVariant const&, PlanVariant const&) = default;
};

/// The variants that a request leaves to the search, what takes the least memory last: the request's own in inference and
/// where both are given.
[[nodiscard]] inline List<PlanVariant> plan_variants(PlanRequest const& request) {
    bool const own = request.estimate.parallel.sequence_parallel;
    if (!request.estimate.training) return {{Recompute::none, own}};
    List<PlanVariant> variants;
    for (auto const recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        if (request.is_recompute_fixed && recompute != request.estimate.training->recompute) continue;
        for (bool const is_sequence_parallel : {false, true}) {
            if (!request.is_sequence_parallel_fixed || is_sequence_parallel == own)
                variants.push_back({recompute, is_sequence_parallel});
        }
    }
    return variants;
}

/// The request with one variant in place of its own.
[[nodiscard]] inline PlanRequest with_variant(PlanRequest request, PlanVariant const& variant) {
    if (request.estimate.training) request.estimate.training->recompute = variant.recompute;
    request.estimate.parallel.sequence_parallel = variant.is_sequence_parallel;
    return request;
}

/// The variants of which one fits where any does: what is computed again need not be kept.
[[nodiscard]] inline List<PlanRequest> smallest_variants(PlanRequest const& request) {
    auto const variants = plan_variants(request);
    List<PlanRequest> smallest;
    for (auto i = variants.size(); i-- > 0 && variants[i].recompute == variants.back().recompute;)
        smallest.push_back(with_variant(request, variants[i]));
    return smallest;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
