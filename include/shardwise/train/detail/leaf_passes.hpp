// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/executor/training/training_pass.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/detail/sequences.hpp>
#include <shardwise/train/detail/training_groups.hpp>
#include <shardwise/train/token_mean.hpp>
#include <shardwise/train/train_options.hpp>
#include <shardwise/train/training_gradients.hpp>
#include <shardwise/train/training_phase.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// How a rank takes its leaves where all ranks take part in each pass: as many passes as the rank with most leaves, some of them empty.
struct LeafRounds {
    std::int64_t leaves = 0;
    /// Of the rank that has most, and of one of its forward passes.
    std::int64_t all = 0;
    std::int64_t at_once = 1;

    [[nodiscard]] std::int64_t passes() const { return ceil_divide(all, at_once); }
    /// Of this rank's leaves those of a forward pass that begins with `first`, and the passes back behind it.
    [[nodiscard]] std::int64_t own(std::int64_t first) const {
        return std::clamp<std::int64_t>(leaves - first, 0, at_once);
    }
    [[nodiscard]] std::int64_t joined(std::int64_t first) const { return std::min(at_once, all - first); }
};

/// The passes of a rank's sequences: of a step, and of a held-out set. Ranks that share weights take part in the passes of all.
template <class Comm>
struct LeafPasses {
    TrainOptions const& options;
    BatchOptions const& batch;
    TrainingGroups<Comm>& groups;
    TrainingWeights const& weights;
    TrainingPass& pass;
    TrainingGradients& gradients;
    Sequences& sequences;
    TrainingPhases const& phases;

    /// Brings this rank's leaves into the sum, with their tokens' losses.
    [[nodiscard]] Result<> add(std::int64_t step, float scale, HostStream& stream) {
        auto const rounds = rounds_of(gradients.count(), batch.batch);
        for (std::int64_t first = 0; first < rounds.all; first += rounds.at_once) {
            auto const limit = Deadline::after(options.timeout);
            phases.begin(TrainingPhase::forward, stream);
            if (auto const done = forward(step, first, rounds.own(first), stream); !done) return done;
            for (auto i = first; i < first + rounds.joined(first); ++i) {
                if (limit.has_passed()) {
                    // What has failed meanwhile names the rank that it waited for. With this it is TrainOptions::own_timeout.
                    if (auto const ended = stream.synchronize(Deadline::after(options.timeout)); !ended) return ended;
                    return Error{ErrorCode::deadline_exceeded}
                        .in("step " + std::to_string(step + 1))
                        .because("did not finish before its deadline")
                        .fix("allow more time, or use a smaller batch");
                }
                begin_backward(stream);
                bool const is_followed = i + 1 < first + rounds.joined(first);
                if (i >= rounds.leaves) {
                    pass.layers()->join_backward(weights, stream, is_followed);
                    continue;
                }
                auto const leaf = gradients.leaf();
                if (!leaf) return leaf.error();
                auto const done =
                    pass.backward(weights, i - first, sequences.targets(i), scale, sequences.losses(i), *leaf, stream,
                                  {.adds_gradients = gradients.adds_leaf(),
                                   .is_followed = is_followed,
                                   .done = gradients.reducer(groups.data(), stream)});
                if (!done) return done;
                phases.begin(TrainingPhase::bucket, stream);
                if (auto const added = gradients.add(groups.data(), stream); !added) return added;
            }
        }
        return {};
    }

    /// Before the backward pass of a leaf: what still reads the gradients of the one before it comes first.
    void begin_backward(HostStream& stream) const {
        if (gradients.is_exchanging()) {
            phases.begin(TrainingPhase::bucket, stream);
            gradients.join_exchange(stream);
        }
        phases.begin(TrainingPhase::backward, stream);
    }

    /// The losses of the first sequences alone.
    [[nodiscard]] Result<> losses(std::int64_t count, HostStream& stream, Deadline) {
        if (count == 0) {
            pass.layers()->join_forward(weights, stream);
            pass.layers()->join_losses(weights, stream);
            return {};
        }
        ChunkPass const at{.sums_as_run = !options.is_fast};
        if (auto const done = pass.forward(weights, sequences.tokens(0, count), stream, {}, at); !done) return done;
        for (std::int64_t i = 0; i < count; ++i) {
            auto const done = pass.losses(weights, i, sequences.targets(i), sequences.losses(i), stream);
            if (!done) return done;
        }
        return {};
    }

    /// The losses of all ranks' sequences of a held-out set, of this one's by `take(count, stream, deadline)`, which computes those of the
    /// first, or takes part in what others do for theirs; nothing where `stops()` has said so before one of these. It may be empty.
    template <class Take>
    [[nodiscard]] Result<Optional<TokenMean>> sum_losses(Batches& held_out, HostStream& stream,
                                                         std::function<bool()> const& stops, Take const& take) {
        auto const& held = held_out.options();
        if (held.context > batch.context)
            return Error{ErrorCode::shape_mismatch}
                .in("validation")
                .at("context")
                .because("is longer than that of training")
                .got(held.context)
                .at_most(batch.context);
        sequences.set_length(held.context);
        auto const place = groups.place_in_data();
        auto const all = held_out.batches_per_epoch() * held.batch;
        auto const own = split_units(all, place.ranks, place.rank);
        auto rounds = rounds_of(own.size(), all);
        // The rank with fewest leaves has memory for no more.
        if (weights.shares().is_shared()) rounds.at_once = std::min(rounds.at_once, batch.batch / place.ranks);
        TokenMean mean;
        // All ranks ask as often, also those that have fewer passes.
        auto const asked = stops ? most_passes(rounds, all) : rounds.passes();
        for (std::int64_t round = 0; round < asked; ++round) {
            if (stops) {
                auto const stopped = is_said(stops());
                if (!stopped) return stopped.error();
                if (*stopped) return Optional<TokenMean>{};
            }
            auto const begin = round * rounds.at_once;
            if (begin >= rounds.all) continue;
            auto const deadline = Deadline::after(options.own_timeout());
            auto const some = rounds.own(begin);
            for (std::int64_t i = 0; i < some; ++i) {
                auto const at = own.begin + begin + i;
                auto const number = at % held.batch;
                if (auto const read = sequences.read(held_out, at - number, number, i); !read) return read.error();
            }
            if (auto const done = take(some, stream, deadline); !done) return done.error();
            if (auto const ended = stream.synchronize(deadline); !ended) return ended.error();
            if (!groups.is_counted() || some == 0) continue;
            if (auto const added = sequences.add_losses(some, mean); !added) return added.error();
        }
        if (auto const summed = mean.sum_over_ranks(groups.world()); !summed) return summed.error();
        return Optional<TokenMean>{mean};
    }

private:
    /// Whether one of all ranks says so. It is no traffic of training.
    [[nodiscard]] Result<bool> is_said(bool own) {
        auto& ranks = groups.world();
        auto const before = ranks.traffic();
        std::int32_t any = own ? 1 : 0;
        auto const done = all_reduce(ranks, TensorView<std::int32_t, 1, Host>{&any, {1}}, ReduceOp::max);
        ranks.traffic() = before;
        return done ? Result<bool>(any > 0) : Result<bool>(done.error());
    }
    /// Of so many sequences the passes of the data-parallel rank that has most of these.
    [[nodiscard]] std::int64_t most_passes(LeafRounds const& own, std::int64_t all) {
        if (weights.shares().is_shared()) return own.passes();
        std::int64_t most = 0;
        auto const ranks = groups.place_in_data().ranks;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
            auto const at_once = std::min(options.micro_batch, split_units(batch.batch, ranks, rank).size());
            most = std::max(most, ceil_divide(split_units(all, ranks, rank).size(), at_once));
        }
        return most;
    }
    /// Of sequences that data-parallel ranks share evenly, of which this one has so many.
    [[nodiscard]] LeafRounds rounds_of(std::int64_t own, std::int64_t all) {
        if (!weights.shares().is_shared()) return {own, own, pass.limits().sequences};
        auto const most = split_units(all, groups.data().size(), 0).size();
        return {own, most, std::min(options.micro_batch, split_units(batch.batch, groups.data().size(), 0).size())};
    }
    [[nodiscard]] Result<> forward(std::int64_t step, std::int64_t first, std::int64_t some, HostStream& stream) {
        if (some == 0) {
            pass.layers()->join_forward(weights, stream);
            return {};
        }
        auto dropout = options.dropout_at(step, gradients.leaf_numbers(first, some));
        return pass.forward(weights, sequences.tokens(first, some), stream, std::move(dropout));
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
