// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/executor/training/training_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a rank has to do in a step, beside others.
struct RankWork {
    /// Ranks of one kind do the same: those of a stage of a pipeline.
    std::int64_t kind = 0;
    /// Of a kind against the others, in any unit.
    double amount = 1.0;
};

/// The same of the rank whose program this is: the numbers that a token is multiplied by, layers' and the head's. What attention does
/// between tokens is not counted.
[[nodiscard]] inline RankWork work_of(TrainingProgram const& program) {
    auto const& config = program.model().config;
    RankWork out{program.place().pipeline.stage, 1.0};
    for (auto const& parameter : program.layout().parameters()) {
        auto const& shape = parameter.tensor->shape;
        // A row of the embedding is looked up, and the head may be the same matrix.
        bool const is_product = shape.rank() == 2 && shape[0] != config.vocab_size;
        if (is_product) out.amount += static_cast<double>(parameter.elements);
    }
    if (program.has_head())
        out.amount += static_cast<double>(program.head().vocabulary) * static_cast<double>(config.hidden_size);
    return out;
}

/// Finds ranks that hold up all others: those that in each of some steps in a row took a multiple of the median for what they do by
/// themselves. Ranks that do the same are compared with each other; where a kind of work is one rank's alone, that rank is compared with
/// all, by the time for an amount of work. Ranks compare after every so many steps, in one all-gather.
class SlowRanks {
public:
    /// `works` is each rank's; none: all do the same.
    explicit SlowRanks(List<RankWork> works = {}, std::int64_t steps = 10, double factor = 2.0)
        : works_(std::move(works)), steps_(steps), factor_(factor) {}

    /// Takes what a step has taken on this rank, without the time that it waited for others; all ranks call it after the same step.
    ///
    /// Units   seconds
    /// Returns the ranks with at least that many slow steps in a row that ended since the last comparison or still go on; else none
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
        streaks_.resize(ranks);
        List<std::int64_t> longest(ranks, 0);
        for (std::int64_t i = 0; i < count; ++i) {
            auto const of = [&](std::size_t rank) {
                return static_cast<double>(all[rank * static_cast<std::size_t>(count) + static_cast<std::size_t>(i)]);
            };
            for (std::size_t rank = 0; rank < ranks; ++rank) {
                auto& streak = streaks_[rank];
                streak = of(rank) > factor_ * expected(ranks, rank, of) ? streak + 1 : 0;
                longest[rank] = std::max(longest[rank], streak);
            }
        }
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            if (longest[rank] >= steps_) slow.push_back(static_cast<std::int32_t>(rank));
        }
        return slow;
    }

private:
    [[nodiscard]] RankWork work(std::size_t rank) const { return rank < works_.size() ? works_[rank] : RankWork{}; }

    /// What a rank would take for a step that was as fast as the median.
    template <class Time>
    [[nodiscard]] double expected(std::size_t ranks, std::size_t rank, Time const& time) const {
        auto const own = work(rank);
        List<double> same;
        List<double> others;
        for (std::size_t i = 0; i < ranks; ++i) {
            if (work(i).kind == own.kind) same.push_back(time(i));
            others.push_back(time(i) / work(i).amount * own.amount);
        }
        auto& compared = same.size() > 1 ? same : others;
        std::sort(compared.begin(), compared.end());
        // Of an even number the lower one: of two ranks one can be slow.
        return compared[(compared.size() - 1) / 2];
    }

    List<RankWork> works_;
    std::int64_t steps_;
    double factor_;
    List<std::int64_t> own_;
    /// Of each rank, the slow steps in a row until the last that was compared.
    List<std::int64_t> streaks_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
