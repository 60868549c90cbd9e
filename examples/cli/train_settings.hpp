// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/train/checkpoint/run_settings.hpp>

#include "train_answer.hpp"
#include "train_data.hpp"

namespace shardwise::cli {

/// The options that change what a run computes: it goes on from a checkpoint only with the same ones.
[[nodiscard]] RunSettings settings_of(TrainRequest const& request, TrainPlan const& plan, TrainData const& data);

}  // namespace shardwise::cli
