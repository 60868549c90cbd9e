// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/schedule/schedule.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The forward passes of rank `rank` before it begins to alternate, over all of its chunks.
[[nodiscard]] constexpr std::int64_t interleaved_warm_up(std::int64_t stages, std::int64_t chunks,
                                                         std::int64_t micro_batches, std::int64_t rank) {
    auto const first = 2 * (stages - 1 - rank) + (chunks - 1) * stages;
    auto const all = micro_batches * chunks;
    return first < all ? first : all;
}

/// One forward, one backward, where each rank holds several chunks of the model and takes them in turn, `stages`
/// micro-batches each: the bubble is divided by the chunks, messages are multiplied.
///
/// Source  Narayanan et al., SC21 (arXiv 2104.04473), section 2.2.2
/// Errors  invalid_argument where the micro-batches are no multiple of the stages, or a number is less than one
[[nodiscard]] constexpr Result<PipelineSchedule> interleaved_schedule(std::int64_t stages, std::int64_t chunks,
                                                                      std::int64_t micro_batches) {
    Error refused{ErrorCode::invalid_argument};
    refused.in("interleaved schedule");
    if (stages < 1) return refused.at("stages").because("are less than one").got(stages).at_least(1);
    if (chunks < 1) return refused.at("chunks").because("are less than one").got(chunks).at_least(1);
    if (micro_batches < 1)
        return refused.at("micro-batches").because("are less than one").got(micro_batches).at_least(1);
    if (micro_batches % stages != 0) {
        return refused.at("micro-batches")
            .because("are no multiple of the pipeline's stages")
            .got(micro_batches)
            .multiple_of(stages)
            .fix("cut the batch into a multiple of the stages");
    }
    auto schedule = detail::empty_schedule(stages, micro_batches, chunks);
    auto const all = micro_batches * chunks;
    // The k-th pass of a rank: `stages` micro-batches of one chunk, then of the next.
    auto const pass = [&](std::int64_t k, PipelineWork work) {
        auto const in_turn = k % (stages * chunks);
        auto const chunk = in_turn / stages;
        auto const m = k / (stages * chunks) * stages + in_turn % stages;
        return detail::slot(work, m, work == PipelineWork::forward ? chunk : chunks - 1 - chunk);
    };
    for (std::int64_t r = 0; r < stages; ++r) {
        auto& rank = schedule.ranks[static_cast<std::size_t>(r)];
        auto const first = interleaved_warm_up(stages, chunks, micro_batches, r);
        for (std::int64_t k = 0; k < first; ++k) rank.push_back(pass(k, PipelineWork::forward));
        for (std::int64_t k = 0; k + first < all; ++k) {
            rank.push_back(pass(k + first, PipelineWork::forward));
            rank.push_back(pass(k, PipelineWork::backward));
        }
        for (auto k = all - first; k < all; ++k) rank.push_back(pass(k, PipelineWork::backward));
    }
    return schedule;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
