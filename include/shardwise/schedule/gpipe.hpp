// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/schedule/schedule.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// All forward passes, then all backward passes in the opposite order: every rank keeps all micro-batches.
///
/// Source  Huang et al., GPipe, 2019 (arXiv 1811.06965)
[[nodiscard]] constexpr PipelineSchedule gpipe_schedule(std::int64_t stages, std::int64_t micro_batches) {
    auto schedule = detail::empty_schedule(stages, micro_batches);
    for (auto& rank : schedule.ranks) {
        for (std::int64_t m = 0; m < micro_batches; ++m) rank.push_back(detail::slot(PipelineWork::forward, m));
        for (std::int64_t m = micro_batches; m-- > 0;) rank.push_back(detail::slot(PipelineWork::backward, m));
    }
    return schedule;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
