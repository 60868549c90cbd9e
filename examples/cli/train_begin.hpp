// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/train/checkpoint/checkpoint_folders.hpp>
#include <shardwise/train/checkpoint/checkpoint_layout.hpp>
#include <shardwise/train/checkpoint/resume_checkpoint.hpp>

#include "train_answer.hpp"
#include "train_run.hpp"

#include <optional>

namespace shardwise::cli {

/// Takes the run's folder and finds its beginning there, by --resume, before the first step. Where the run would remove checkpoints that
/// are there, it begins nowhere.
///
/// Errors  as RunFolderLock, newest_checkpoint, check_run_folder and check_checkpoint_space
[[nodiscard]] Result<ResumePoint> open_folder(TrainJob const& job, TrainAnswer const& answer,
                                              CheckpointLayout const& layout, std::optional<RunFolderLock>& lock);

}  // namespace shardwise::cli
