// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/schedule/one_forward_one_backward.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One forward, one backward with backward passes in two parts: rank r puts the weights' gradients r micro-batches
/// off, so that they fill what would be the bubble. A third of its bubble at the same memory, where there are at
/// least as many micro-batches as stages.
///
/// Source  Qi et al., Zero Bubble Pipeline Parallelism, 2023 (arXiv 2401.10241), section 2.3, ZB-H1
[[nodiscard]] constexpr PipelineSchedule zero_bubble_schedule(std::int64_t stages, std::int64_t micro_batches) {
    auto schedule = detail::empty_schedule(stages, micro_batches);
    schedule.is_split = true;
    for (std::int64_t r = 0; r < stages; ++r) {
        auto& rank = schedule.ranks[static_cast<std::size_t>(r)];
        std::int64_t forward = 0;
        std::int64_t weights = 0;
        auto const first = warm_up(stages, micro_batches, r);
        while (forward < first) rank.push_back(detail::slot(PipelineWork::forward, forward++));
        for (std::int64_t backward = 0; backward < micro_batches; ++backward) {
            if (forward < micro_batches) rank.push_back(detail::slot(PipelineWork::forward, forward++));
            rank.push_back(detail::slot(PipelineWork::backward, backward));
            if (backward >= r) rank.push_back(detail::slot(PipelineWork::weights, weights++));
        }
        while (weights < micro_batches) rank.push_back(detail::slot(PipelineWork::weights, weights++));
    }
    return schedule;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
