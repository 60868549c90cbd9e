// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/schedule/schedule.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Inference: every rank passes the micro-batches on in order.
[[nodiscard]] constexpr PipelineSchedule forward_only(std::int64_t stages, std::int64_t micro_batches) {
    auto schedule = detail::empty_schedule(stages, micro_batches);
    for (auto& rank : schedule.ranks) {
        for (std::int64_t m = 0; m < micro_batches; ++m) rank.push_back(detail::slot(PipelineWork::forward, m));
    }
    return schedule;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
