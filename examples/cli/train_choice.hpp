// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/files/rope_divisors.hpp>

#include "run_ranks.hpp"
#include "train_answer.hpp"

#include <cstdint>

namespace shardwise::cli {

/// What --mode auto has chosen, beside the degrees and the stage of ZeRO in the request.
struct TrainChoice {
    std::string better;
    /// Ranks of a machine; 0: all.
    std::int64_t per_machine = 0;
    /// This process has left the training to the first rank, which trains alone.
    bool has_left = false;
};

/// Whether --mode auto has anything to choose.
[[nodiscard]] bool needs_choice(TrainRequest const& request);

/// Chooses for all ranks, by what the first of them finds, how they share the training of a model in `memory` of each machine. Where they
/// cannot and the request may fall back, the first trains alone. `plan` has context, steps and schedule.
///
/// Errors  as TrainingSearch, by flags
[[nodiscard]] Result<TrainChoice> choose_ranks(RunRanks& ranks, TrainRequest& request, TrainPlan const& plan,
                                               Model const& model, RopeDivisors const& divisors, Bytes memory);

/// Ends waiting for ranks that cannot be had: the first one trains alone, the others leave it to that. Says so on the standard error.
[[nodiscard]] TrainChoice fall_back(RunRanks& ranks, TrainRequest& request, std::string const& why);

/// What degrees and ranks that are processes do not go with.
///
/// Errors  invalid_argument, unsupported by flags
[[nodiscard]] Result<> check_train_ranks(TrainRequest const& request, RunRanks const& ranks);

}  // namespace shardwise::cli
