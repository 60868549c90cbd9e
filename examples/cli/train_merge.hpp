// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/files/model_source.hpp>
#include <shardwise/train/checkpoint/checkpoint_files.hpp>

#include "load_model.hpp"
#include "train_answer.hpp"
#include "train_data.hpp"

#include <optional>

namespace shardwise::cli {

/// What every checkpoint has beside its weights; --tokenizer's files take the place of the model's.
///
/// Errors  as read_checkpoint_files
[[nodiscard]] Result<CheckpointFiles> copied_files(ModelSource const& source,
                                                   std::optional<TrainTokenizer> const& tokenizer, bool is_adapter);

/// Refuses --merge where the base has weights that it cannot be merged into, before anything is trained.
///
/// Errors  unsupported with the weight, or with what says that weights are packed; as read_checkpoint_files
[[nodiscard]] Result<> check_merged(TrainRequest const& request, ModelSource const& source);

/// Writes OUT/merged, the base with the last checkpoint's adapter in its weights, and says so in the answer.
///
/// Errors  as Adapter and write_merged
[[nodiscard]] Result<> write_merged_model(LoadedModel& loaded, std::optional<TrainTokenizer> const& tokenizer,
                                          TrainAnswer& answer);

}  // namespace shardwise::cli
