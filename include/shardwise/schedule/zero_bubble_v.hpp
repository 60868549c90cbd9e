// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/schedule/schedule.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Fills a table of two chunks a rank, there and back, one unit of time after another: forward passes while a rank keeps
/// no more than two chunks per stage, gradients of inputs, and gradients of weights in what is left. With two
/// micro-batches per stage there are always forward passes to put in, and they go first; with fewer the gradients do, so
/// that chunks are freed early.
class ZeroBubbleFiller {
public:
    constexpr ZeroBubbleFiller(std::int64_t stages, std::int64_t micro_batches)
        : schedule_(empty_schedule(stages, micro_batches, 2)),
          passed_(6 * schedule_.ranks.size(), 0),
          before_(passed_) {
        schedule_.order = ChunkOrder::back_and_forth;
        schedule_.is_split = true;
    }

    constexpr PipelineSchedule fill() && {
        auto left = 3 * 2 * schedule_.stages * schedule_.micro_batches;
        // The oldest micro-batch under way can always go on, so that every unit of time does something.
        for (bool is_moving = true; is_moving && left > 0;) {
            is_moving = false;
            before_ = passed_;
            for (std::int64_t rank = 0; rank < schedule_.stages; ++rank) {
                if (!step(rank)) continue;
                is_moving = true;
                --left;
            }
        }
        return static_cast<PipelineSchedule&&>(schedule_);
    }

private:
    constexpr std::size_t index(PipelineWork work, std::int64_t virtual_stage) const {
        return static_cast<std::size_t>(static_cast<std::int64_t>(work) * 2 * schedule_.stages + virtual_stage);
    }
    /// Micro-batches that a virtual stage of the model has passed, in the time units before this one.
    constexpr std::int64_t passed(PipelineWork work, std::int64_t virtual_stage) const {
        return before_[index(work, virtual_stage)];
    }

    constexpr bool is_ready(PipelineWork work, std::int64_t rank, std::int64_t chunk) const {
        auto const virtual_stage = schedule_.virtual_stage(rank, chunk);
        auto const next = passed(work, virtual_stage);
        if (next >= schedule_.micro_batches) return false;
        switch (work) {
            case PipelineWork::forward:
                return (virtual_stage == 0 || passed(work, virtual_stage - 1) > next) &&
                       kept(rank) < 2 * schedule_.stages;
            case PipelineWork::backward:
                return passed(PipelineWork::forward, virtual_stage) > next &&
                       (virtual_stage + 1 == 2 * schedule_.stages || passed(work, virtual_stage + 1) > next);
            case PipelineWork::weights:
                return passed(PipelineWork::backward, virtual_stage) > next;
        }
        return false;
    }
    constexpr std::int64_t kept(std::int64_t rank) const {
        std::int64_t count = 0;
        for (std::int64_t chunk = 0; chunk < 2; ++chunk) {
            auto const virtual_stage = schedule_.virtual_stage(rank, chunk);
            count += passed(PipelineWork::forward, virtual_stage) - passed(PipelineWork::weights, virtual_stage);
        }
        return count;
    }

    constexpr bool step(std::int64_t rank) {
        bool const is_long = schedule_.micro_batches >= 2 * schedule_.stages;
        auto const first = is_long ? PipelineWork::forward : PipelineWork::backward;
        auto const second = is_long ? PipelineWork::backward : PipelineWork::forward;
        for (auto const work : {first, second, PipelineWork::weights}) {
            for (std::int64_t turn = 0; turn < 2; ++turn) {
                // The later half goes forward first, so that gradients come back soon; backward passes drain the
                // earlier.
                auto const chunk = work == PipelineWork::backward ? turn : 1 - turn;
                if (!is_ready(work, rank, chunk)) continue;
                auto& count = passed_[index(work, schedule_.virtual_stage(rank, chunk))];
                schedule_.ranks[static_cast<std::size_t>(rank)].push_back(slot(work, count, chunk));
                ++count;
                return true;
            }
        }
        return false;
    }

    PipelineSchedule schedule_;
    List<std::int64_t> passed_;
    List<std::int64_t> before_;
};

}  // namespace detail

/// Two chunks a rank that lie there and back, backward passes in two parts: with all three of one length and at least
/// two micro-batches per stage the bubble is p - 1 of them, at the memory of one forward, one backward.
///
/// Source  Qi et al., Pipeline Parallelism with Controllable Memory, 2024 (arXiv 2405.15362), the schedule ZB-V
[[nodiscard]] constexpr PipelineSchedule zero_bubble_v_schedule(std::int64_t stages, std::int64_t micro_batches) {
    return detail::ZeroBubbleFiller(stages, micro_batches).fill();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
