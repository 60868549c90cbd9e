// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/executor/training/training_program.hpp>
#include <shardwise/executor/training/training_weights.hpp>
#include <shardwise/model/files/rope_divisors.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/checkpoint/checkpoint_files.hpp>

#include "console.hpp"
#include "train_answer.hpp"
#include "train_data.hpp"
#include "train_restarts.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace shardwise::cli {

/// What a run is made of; all of it outlives the run.
struct TrainJob {
    Model const* model = nullptr;
    /// Of each rank of a replica of the model.
    std::vector<TrainingProgram> const* programs = nullptr;
    TrainData const* data = nullptr;
    Batches const* batches = nullptr;
    /// What every checkpoint has beside its weights.
    CheckpointFiles const* files = nullptr;
    RopeDivisors divisors;
    /// Gives the weights that a run begins with, those of a rank of a replica, held in some way.
    std::function<Result<TrainingWeights>(HostContext&, TrainingPlace const&, WeightStorage const&)> weights;
    ColorMode color = ColorMode::automatic;
    /// All ranks, where this process is one of them; null where they are threads of it.
    HostCommunicator* world = nullptr;
    /// Of this rank.
    int threads = 1;
    /// Signals that end a run are another rank's to see.
    bool ignores_signals = false;
    /// Where restarts are told of; null where there are none.
    RestartRecord* restarts = nullptr;

    /// Whether this process tells of the run.
    [[nodiscard]] bool is_first() const { return world == nullptr || world->rank() == 0; }
};

/// Trains as planned in `answer` and completes it. The first SIGINT, SIGTERM or SIGHUP ends the run after its step and a checkpoint
/// (TrainAnswer::signal), a second one the program. Of ranks that are processes the first alone writes and tells what is not a part of a
/// checkpoint; all call it.
///
/// Errors  as train_ranks, newest_checkpoint and save_checkpoint; those of the files that are written
[[nodiscard]] Result<> run_training(TrainJob const& job, TrainAnswer& answer);

/// What can be said of a run's checkpoints before it: whether they are written at all, and whether the disk has room for them where its
/// folder has none yet.
///
/// Errors  as CheckpointLayout::create and check_checkpoint_space
[[nodiscard]] Result<> check_checkpoints(TrainRequest const& request, Model const& model, TrainedAdapter const& adapter,
                                         CheckpointFiles const& files);

}  // namespace shardwise::cli
