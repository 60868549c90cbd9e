// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/schedule/messages.hpp>
#include <shardwise/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Finds out whether a table gives every rank each of its passes once: forward passes alone, or with backward passes, in
/// one part or in two, of every micro-batch through each chunk. Whether their order leads anywhere is another question
/// (queue_needed).
///
/// Errors  invalid_argument with the number that is wrong: a micro-batch, a chunk, or how many passes a rank has
[[nodiscard]] constexpr Result<> check_schedule(PipelineSchedule const& schedule) {
    Error error{ErrorCode::invalid_argument};
    error.in("pipeline").at("schedule").fix("give every rank each micro-batch's passes once");
    for (auto const count : {schedule.stages, schedule.micro_batches, schedule.chunks}) {
        if (count < 1) return error.because("has no stages, micro-batches or chunks").got(count).at_least(1);
    }
    if (static_cast<std::int64_t>(schedule.ranks.size()) != schedule.stages) {
        return error.because("does not have a row for each stage")
            .got(static_cast<std::int64_t>(schedule.ranks.size()))
            .expected(schedule.stages);
    }
    auto const kinds = !is_training(schedule) ? 1 : schedule.is_split ? 3 : 2;
    auto const passes = checked_multiply(schedule.micro_batches, schedule.chunks);
    auto const of_rank = passes ? checked_multiply(kinds, *passes) : passes;
    if (!of_rank) return error.because("has more passes than can be counted").got(schedule.micro_batches);
    for (auto const& rank : schedule.ranks) {
        if (static_cast<std::int64_t>(rank.size()) != *of_rank) {
            return error.because("has too few or too many passes of a rank")
                .got(static_cast<std::int64_t>(rank.size()))
                .expected(*of_rank);
        }
        List<std::int8_t> seen(rank.size(), 0);
        for (auto const& slot : rank) {
            if (slot.micro_batch < 0 || slot.micro_batch >= schedule.micro_batches)
                return error.because("has a pass of a micro-batch that is none")
                    .got(slot.micro_batch)
                    .between(0, schedule.micro_batches - 1);
            if (slot.chunk < 0 || slot.chunk >= schedule.chunks)
                return error.because("has a pass through a chunk that is none")
                    .got(slot.chunk)
                    .between(0, schedule.chunks - 1);
            auto const kind = static_cast<std::int64_t>(slot.work);
            if (kind >= kinds) return error.because("has a pass of a kind that its first row has not").got(kind);
            auto& is_seen =
                seen[static_cast<std::size_t>(kind * *passes + slot.chunk * schedule.micro_batches + slot.micro_batch)];
            if (is_seen != 0) return error.because("has a pass of a micro-batch twice").got(slot.micro_batch);
            is_seen = 1;
        }
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
