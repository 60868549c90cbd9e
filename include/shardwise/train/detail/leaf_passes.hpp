// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/split.hpp>
#include <shardwise/executor/training/training_pass.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/detail/sequences.hpp>
#include <shardwise/train/detail/training_groups.hpp>
#include <shardwise/train/token_mean.hpp>
#include <shardwise/train/train_options.hpp>
#include <shardwise/train/training_gradients.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The passes of a rank's sequences: of a step, and of a held-out set.
template <class Comm>
struct LeafPasses {
    TrainOptions const& options;
    BatchOptions const& batch;
    TrainingGroups<Comm>& groups;
    TrainingWeights const& weights;
    TrainingPass& pass;
    TrainingGradients& gradients;
    Sequences& sequences;

    /// Brings this rank's leaves into the sum, with their tokens' losses.
    [[nodiscard]] Result<> add(std::int64_t step, float scale, HostStream& stream, Deadline deadline) {
        auto const most = pass.limits().sequences;
        for (std::int64_t first = 0; first < gradients.count(); first += most) {
            auto const some = std::min(most, gradients.count() - first);
            auto dropout = options.dropout_at(step, gradients.leaf_numbers(first, some));
            auto const tokens = sequences.tokens(first, some);
            if (auto const done = pass.forward(weights, tokens, stream, std::move(dropout)); !done) return done;
            for (std::int64_t i = 0; i < some; ++i) {
                if (deadline.has_passed())
                    return Error{ErrorCode::deadline_exceeded}
                        .in("step " + std::to_string(step))
                        .because("did not finish before its deadline")
                        .fix("allow more time, or use a smaller batch");
                auto const leaf = gradients.leaf();
                if (!leaf) return leaf.error();
                auto const done = pass.backward(weights, i, sequences.targets(first + i), scale,
                                                sequences.losses(first + i), *leaf, stream);
                if (!done) return done;
                if (auto const added = gradients.add(groups.data(), stream); !added) return added;
            }
        }
        return {};
    }

    /// The losses of the first sequences alone.
    [[nodiscard]] Result<> losses(std::int64_t count, HostStream& stream, Deadline) {
        if (auto const done = pass.forward(weights, sequences.tokens(0, count), stream); !done) return done;
        for (std::int64_t i = 0; i < count; ++i) {
            auto const done = pass.losses(weights, i, sequences.targets(i), sequences.losses(i), stream);
            if (!done) return done;
        }
        return {};
    }

    /// The losses of this rank's sequences of a held-out set, by `take(count, stream, deadline)`, which computes those of the first.
    template <class Take>
    [[nodiscard]] Result<TokenMean> sum_losses(Batches& held_out, HostStream& stream, Take const& take) {
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
        auto const own = split_units(held_out.batches_per_epoch() * held.batch, place.ranks, place.rank);
        TokenMean mean;
        for (auto first = own.begin; first < own.end; first += pass.limits().sequences) {
            auto const deadline = Deadline::after(options.timeout);
            auto const some = std::min(pass.limits().sequences, own.end - first);
            for (std::int64_t i = 0; i < some; ++i) {
                auto const number = (first + i) % held.batch;
                if (auto const read = sequences.read(held_out, first + i - number, number, i); !read)
                    return read.error();
            }
            if (auto const done = take(some, stream, deadline); !done) return done.error();
            if (auto const ended = stream.synchronize(deadline); !ended) return ended.error();
            if (!groups.is_counted()) continue;
            if (auto const added = sequences.add_losses(some, mean); !added) return added.error();
        }
        return mean;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
