// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/training/training_weights.hpp>
#include <shardwise/train/checkpoint/checkpoint_saver.hpp>
#include <shardwise/train/detail/trainer_sizes.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What one rank of a training allocates, by the sizes that the trainer itself allocates by.
struct TrainingEstimate {
    /// Of the model, with copies that tensor-parallel ranks cut along the other axis and what stays packed.
    Bytes weights{};
    detail::TrainerParts trainer{};
    /// The copy of a checkpoint that is written beside training.
    Bytes staging{};

    [[nodiscard]] Bytes total() const { return weights + trainer.total() + staging; }
};

/// Counts what rank `place` of all ranks takes. `saves_beside` where checkpoints are written while steps go on.
///
/// Errors  as plan_training_memory
template <OptimizerRule Rule>
[[nodiscard]] Result<TrainingEstimate> estimate_training(TrainingProgram const& program, Rule const& rule,
                                                         BatchOptions const& batch, TrainOptions const& options,
                                                         TensorPlace const& place = {}, bool saves_beside = false,
                                                         RopeDivisors const& divisors = {}) {
    detail::TrainerSizes<Rule> const sizes{program, rule, batch, options, place};
    auto const trainer = sizes.parts(divisors);
    if (!trainer) return trainer.error();
    TrainingEstimate out{.trainer = *trainer};
    if (!options.has_one_copy || place.rank == 0)
        out.weights = TrainingWeights::bytes(program.layout(), sizes.weights());
    if (saves_beside) {
        bool const is_shared = options.shared() != ZeroStage::none;
        out.staging = CheckpointSaver<>::staging_bytes(program.layout(), rule, place, is_shared);
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
