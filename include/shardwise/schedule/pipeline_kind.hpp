// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/schedule/gpipe.hpp>
#include <shardwise/schedule/interleaved.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/schedule.hpp>
#include <shardwise/schedule/zero_bubble.hpp>
#include <shardwise/schedule/zero_bubble_v.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The tables that training over stages can follow.
enum class PipelineKind : std::uint8_t {
    gpipe,
    one_forward_one_backward,
    interleaved,
    zero_bubble,
    zero_bubble_v,
};

/// Pieces of the model on each rank, and how they lie.
[[nodiscard]] constexpr std::int64_t pipeline_chunks(PipelineKind kind) {
    return kind == PipelineKind::interleaved || kind == PipelineKind::zero_bubble_v ? 2 : 1;
}
[[nodiscard]] constexpr ChunkOrder pipeline_order(PipelineKind kind) {
    return kind == PipelineKind::zero_bubble_v ? ChunkOrder::back_and_forth : ChunkOrder::round;
}

/// The table of a kind.
///
/// Errors  as interleaved_schedule
[[nodiscard]] constexpr Result<PipelineSchedule> pipeline_table(PipelineKind kind, std::int64_t stages,
                                                                std::int64_t micro_batches) {
    switch (kind) {
        case PipelineKind::gpipe:
            return gpipe_schedule(stages, micro_batches);
        case PipelineKind::one_forward_one_backward:
            return one_forward_one_backward(stages, micro_batches);
        case PipelineKind::interleaved:
            return interleaved_schedule(stages, pipeline_chunks(kind), micro_batches);
        case PipelineKind::zero_bubble:
            return zero_bubble_schedule(stages, micro_batches);
        case PipelineKind::zero_bubble_v:
            return zero_bubble_v_schedule(stages, micro_batches);
    }
    return one_forward_one_backward(stages, micro_batches);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
