// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/list.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Finds ranks that hold up all others: those that in each of some steps in a row took a multiple of the median of all ranks for what they
/// do by themselves. Ranks compare after every so many steps, in one all-gather.
class SlowRanks {
public:
    explicit SlowRanks(std::int64_t steps = 10, double factor = 2.0) : steps_(steps), factor_(factor) {}

    /// Takes what a step has taken on this rank, without the time that it waited for others; all ranks call it after the same step.
    ///
    /// Units   seconds
    /// Returns the ranks that were slow in all of the last steps, where these were just compared; else none
    /// Errors  as a collective
    template <Communicator C>
    [[nodiscard]] Result<List<std::int32_t>> take(C& comm, double seconds) {
        List<std::int32_t> slow;
        if (comm.size() == 1) return slow;
        own_.push_back(static_cast<std::int64_t>(seconds * 1e9));
        auto const count = static_cast<std::int64_t>(own_.size());
        if (count < steps_) return slow;
        auto const ranks = static_cast<std::size_t>(comm.size());
        List<std::int64_t> all(own_.size() * ranks);
        List<std::int64_t> const counts(ranks, count);
        auto const gathered = all_gather(comm, TensorView<std::int64_t const, 1, Host>{own_.data(), {count}},
                                         TensorView<std::int64_t, 1, Host>{all.data(), {count * comm.size()}},
                                         std::span<std::int64_t const>{counts.data(), counts.size()});
        own_.clear();
        if (!gathered) return gathered.error();
        List<std::int64_t> behind(ranks, 0);
        List<std::int64_t> step;
        for (std::int64_t i = 0; i < count; ++i) {
            auto const of = [&](std::size_t rank) {
                return all[rank * static_cast<std::size_t>(count) + static_cast<std::size_t>(i)];
            };
            step.clear();
            for (std::size_t rank = 0; rank < ranks; ++rank) step.push_back(of(rank));
            std::sort(step.begin(), step.end());
            // Of an even number the lower one: of two ranks one can be slow.
            auto const limit = factor_ * static_cast<double>(step[(ranks - 1) / 2]);
            for (std::size_t rank = 0; rank < ranks; ++rank)
                behind[rank] += static_cast<double>(of(rank)) > limit ? 1 : 0;
        }
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            if (behind[rank] == count) slow.push_back(static_cast<std::int32_t>(rank));
        }
        return slow;
    }

private:
    std::int64_t steps_;
    double factor_;
    List<std::int64_t> own_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
