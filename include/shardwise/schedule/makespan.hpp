// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How long a rank takes for one micro-batch through one of its chunks.
///
/// Units  any, the same for all
struct PipelineTimes {
    double forward = 1.0;
    double backward = 2.0;
    /// Of a backward pass in two parts, the second.
    double weights = 1.0;

    [[nodiscard]] constexpr double of(PipelineWork work) const {
        switch (work) {
            case PipelineWork::forward:
                return forward;
            case PipelineWork::backward:
                return backward;
            case PipelineWork::weights:
                break;
        }
        return weights;
    }
};

namespace detail {

/// Runs a table: every rank in its own order, each slot of work once what it needs is done.
class PipelineRun {
public:
    constexpr PipelineRun(PipelineSchedule const& schedule, Span<PipelineTimes const> times)
        : schedule_(schedule),
          times_(times),
          virtual_stages_(schedule.stages * schedule.chunks),
          done_(static_cast<std::size_t>(3 * virtual_stages_ * schedule.micro_batches), -1.0),
          next_(schedule.ranks.size(), 0),
          free_(schedule.ranks.size(), 0.0) {}

    constexpr Result<double> run() {
        bool is_moving = true;
        std::size_t waiting = schedule_.ranks.size();
        while (is_moving && waiting > 0) {
            is_moving = false;
            waiting = 0;
            for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
                while (advance(rank)) is_moving = true;
                if (next_[rank] < schedule_.ranks[rank].size()) ++waiting;
            }
        }
        if (waiting > 0) {
            return Error{ErrorCode::invalid_argument}
                .at("schedule")
                .because("waits for work that never comes")
                .fix("give every rank each micro-batch's passes once, in an order that its neighbours can follow");
        }
        double end = 0.0;
        for (auto const time : free_) end = end < time ? time : end;
        return end;
    }

private:
    constexpr double& done(PipelineWork work, std::int64_t virtual_stage, std::int64_t micro_batch) {
        return done_[static_cast<std::size_t>((static_cast<std::int64_t>(work) * virtual_stages_ + virtual_stage) *
                                                  schedule_.micro_batches +
                                              micro_batch)];
    }

    /// When what a slot of work needs is done; negative where it is not yet known.
    constexpr double ready(PipelineWork work, std::int64_t virtual_stage, std::int64_t micro_batch) {
        switch (work) {
            case PipelineWork::forward:
                return virtual_stage == 0 ? 0.0 : done(PipelineWork::forward, virtual_stage - 1, micro_batch);
            case PipelineWork::backward: {
                auto const own = done(PipelineWork::forward, virtual_stage, micro_batch);
                if (virtual_stage + 1 == virtual_stages_) return own;
                auto const after = done(PipelineWork::backward, virtual_stage + 1, micro_batch);
                if (own < 0.0 || after < 0.0) return -1.0;
                return own < after ? after : own;
            }
            case PipelineWork::weights:
                return done(PipelineWork::backward, virtual_stage, micro_batch);
        }
        return -1.0;
    }

    constexpr bool advance(std::size_t rank) {
        auto const& order = schedule_.ranks[rank];
        if (next_[rank] >= order.size()) return false;
        auto const& slot = order[next_[rank]];
        if (slot.micro_batch < 0 || slot.micro_batch >= schedule_.micro_batches || slot.chunk < 0 ||
            slot.chunk >= schedule_.chunks)
            return false;
        auto const virtual_stage = schedule_.virtual_stage(static_cast<std::int64_t>(rank), slot.chunk);
        auto const start = ready(slot.work, virtual_stage, slot.micro_batch);
        auto& end = done(slot.work, virtual_stage, slot.micro_batch);
        if (start < 0.0 || end >= 0.0) return false;
        auto const begin = start < free_[rank] ? free_[rank] : start;
        end = begin + times_[times_.size() == 1 ? 0 : rank].of(slot.work);
        free_[rank] = end;
        ++next_[rank];
        return true;
    }

    PipelineSchedule const& schedule_;
    Span<PipelineTimes const> times_;
    std::int64_t virtual_stages_;
    List<double> done_;
    List<std::size_t> next_;
    List<double> free_;
};

}  // namespace detail

/// The time from the first forward pass to the last backward pass; `times` of one rank count for all.
///
/// Errors  invalid_argument for a table that comes to a standstill
[[nodiscard]] constexpr Result<double> makespan(PipelineSchedule const& schedule, Span<PipelineTimes const> times) {
    return detail::PipelineRun(schedule, times).run();
}

/// The same where all ranks are alike.
[[nodiscard]] constexpr Result<double> makespan(PipelineSchedule const& schedule, PipelineTimes const& times = {}) {
    return detail::PipelineRun(schedule, {&times, 1}).run();
}

/// The most micro-batches (of a chunk each) that a rank keeps at once: forward passes whose backward pass is not done.
[[nodiscard]] constexpr std::int64_t max_in_flight(PipelineSchedule const& schedule, std::int64_t rank) {
    std::int64_t kept = 0;
    std::int64_t most = 0;
    auto const last = schedule.is_split ? PipelineWork::weights : PipelineWork::backward;
    for (auto const& slot : schedule.ranks[static_cast<std::size_t>(rank)]) {
        if (slot.work == PipelineWork::forward)
            ++kept;
        else if (slot.work == last)
            --kept;
        if (most < kept) most = kept;
    }
    return most;
}

/// The most of them whose backward pass is between its two parts at once: the gradients of their inputs are there, those of the weights are
/// not. None where backward passes are in one part.
[[nodiscard]] constexpr std::int64_t max_waiting(PipelineSchedule const& schedule, std::int64_t rank) {
    std::int64_t kept = 0;
    std::int64_t most = 0;
    if (!schedule.is_split) return 0;
    for (auto const& slot : schedule.ranks[static_cast<std::size_t>(rank)]) {
        if (slot.work == PipelineWork::backward)
            ++kept;
        else if (slot.work == PipelineWork::weights)
            --kept;
        if (most < kept) most = kept;
    }
    return most;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
