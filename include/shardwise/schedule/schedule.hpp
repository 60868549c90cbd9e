// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a rank does with a micro-batch. A backward pass in one part is `backward`; in two, `backward` makes the
/// gradients of the inputs, which the stage before waits for, and `weights` those of the weights, which nobody waits
/// for.
enum class PipelineWork : std::uint8_t { forward, backward, weights };

/// One slot of work: a micro-batch through one chunk of a rank's layers.
struct PipelineSlot {
    PipelineWork work = PipelineWork::forward;
    std::int32_t micro_batch = 0;
    std::int32_t chunk = 0;

    friend constexpr bool operator==(PipelineSlot const&, PipelineSlot const&) = default;
};

/// How chunks lie on the ranks: the model's virtual stages go round the ranks again and again, or there and back.
enum class ChunkOrder : std::uint8_t { round, back_and_forth };

/// A pipeline's table: the order of work of each rank.
struct PipelineSchedule {
    std::int64_t stages = 1;
    std::int64_t micro_batches = 1;
    /// Pieces of the model on each rank.
    std::int64_t chunks = 1;
    ChunkOrder order = ChunkOrder::round;
    /// True where a backward pass is in two parts.
    bool is_split = false;
    List<List<PipelineSlot>> ranks{};

    /// The virtual stage of the model, counted over all ranks, that is `chunk` of `rank`.
    [[nodiscard]] constexpr std::int64_t virtual_stage(std::int64_t rank, std::int64_t chunk) const {
        bool const is_reversed = order == ChunkOrder::back_and_forth && chunk % 2 == 1;
        return chunk * stages + (is_reversed ? stages - 1 - rank : rank);
    }
};

namespace detail {

/// A schedule with a free place for every rank's work; none for less than no stages, which check_schedule refuses.
[[nodiscard]] constexpr PipelineSchedule empty_schedule(std::int64_t stages, std::int64_t micro_batches,
                                                        std::int64_t chunks = 1) {
    PipelineSchedule schedule{.stages = stages, .micro_batches = micro_batches, .chunks = chunks};
    schedule.ranks.resize(static_cast<std::size_t>(stages < 0 ? 0 : stages));
    return schedule;
}

[[nodiscard]] constexpr PipelineSlot slot(PipelineWork work, std::int64_t micro_batch, std::int64_t chunk = 0) {
    return {work, static_cast<std::int32_t>(micro_batch), static_cast<std::int32_t>(chunk)};
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
