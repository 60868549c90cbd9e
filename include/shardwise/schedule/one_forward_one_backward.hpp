// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/schedule/schedule.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The forward passes of rank `rank` before it begins to alternate.
[[nodiscard]] constexpr std::int64_t warm_up(std::int64_t stages, std::int64_t micro_batches, std::int64_t rank) {
    auto const first = stages - rank - 1;
    return first < micro_batches ? first : micro_batches;
}

/// Forward and backward passes in turn: rank r of p keeps at most p - r micro-batches.
///
/// Source  Narayanan et al., PipeDream-Flush in SC21 (arXiv 2104.04473), section 2.2.1
[[nodiscard]] constexpr PipelineSchedule one_forward_one_backward(std::int64_t stages, std::int64_t micro_batches) {
    auto schedule = detail::empty_schedule(stages, micro_batches);
    for (std::int64_t r = 0; r < stages; ++r) {
        auto& rank = schedule.ranks[static_cast<std::size_t>(r)];
        auto const first = warm_up(stages, micro_batches, r);
        for (std::int64_t m = 0; m < first; ++m) rank.push_back(detail::slot(PipelineWork::forward, m));
        for (std::int64_t m = 0; m + first < micro_batches; ++m) {
            rank.push_back(detail::slot(PipelineWork::forward, m + first));
            rank.push_back(detail::slot(PipelineWork::backward, m));
        }
        for (auto m = micro_batches - first; m < micro_batches; ++m)
            rank.push_back(detail::slot(PipelineWork::backward, m));
    }
    return schedule;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
