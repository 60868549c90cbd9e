// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/executor/training/training_program.hpp>
#include <shardwise/model/files/rope_divisors.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/trainer.hpp>

#include "train_answer.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::cli {

/// Calls `call(rule)` with the optimizer that was asked for.
template <class Call>
auto with_rule(TrainRequest const& request, Call&& call) {
    switch (request.optimizer) {
        case OptimizerKind::adam:
            break;
        case OptimizerKind::sgd:
            return call(request.sgd);
        case OptimizerKind::adam8bit:
            return call(request.adam8bit());
    }
    if (request.kahan_sum) return call(KahanSum<AdamW>{request.adamw});
    return call(request.adamw);
}

/// What the library's trainer and batches take of a request and its plan.
[[nodiscard]] TrainOptions train_options_of(TrainRequest const& request, TrainPlan const& plan);
[[nodiscard]] BatchOptions batch_options_of(TrainRequest const& request, TrainPlan const& plan);

/// Which ranks take what: "2 data-parallel ranks of 4 sequences a step".
[[nodiscard]] std::string reason_of(TrainRequest const& request, TrainPlan const& plan);

/// Whether tensor-parallel ranks cut no block of the optimizer's state.
///
/// Errors  unsupported with the parameter whose blocks they cut
[[nodiscard]] Result<> check_cuts(TrainRequest const& request, std::vector<TrainingProgram> const& programs);

/// When data-parallel ranks exchange gradients: "beside backward passes", or after them and why. Empty where they exchange none.
/// `has_one_thread` is of ranks that meet over MPI or Gloo.
[[nodiscard]] std::string exchange_of(TrainRequest const& request, TrainPlan const& plan,
                                      std::vector<TrainingProgram> const& programs, bool has_one_thread);

/// Tokens of a sequence.
///
/// Errors  invalid_argument beyond the model's positions
[[nodiscard]] Result<std::int64_t> context_of(TrainRequest const& request, Model const& model);

/// Steps, schedule and validation of a run over batches.
///
/// Errors  invalid_argument for a warm-up that is longer than the run, and for a run without a step
[[nodiscard]] Result<> plan_steps(TrainRequest const& request, std::int64_t batches_per_epoch, TrainPlan& plan);

/// How a rank holds weights.
[[nodiscard]] WeightStorage storage_of(TrainRequest const& request, TrainPlan const& plan, std::int64_t rank);

/// Whether checkpoints are written beside training: the one after the last step is waited for.
[[nodiscard]] bool saves_beside(TrainRequest const& request, TrainPlan const& plan);

/// What each rank takes: weights, gradients, optimizer, values of a micro-batch, copies of what checkpoints write meanwhile.
///
/// Errors  as Trainer::bytes
[[nodiscard]] Result<std::vector<TrainRankMemory>> predict_memory(TrainRequest const& request, TrainPlan const& plan,
                                                                  std::vector<TrainingProgram> const& programs,
                                                                  RopeDivisors const& divisors);

/// What all ranks together take from each other in a step.
[[nodiscard]] CollectiveTraffic predict_traffic(TrainRequest const& request, TrainPlan const& plan,
                                                std::vector<TrainingProgram> const& programs);

/// Operations of a step, forwards and back, on all ranks together.
[[nodiscard]] double step_operations(TrainRequest const& request, TrainPlan const& plan, Model const& model);

/// Plans micro-batches of this size.
void set_micro_batch(TrainRequest const& request, std::int64_t size, TrainPlan& plan);

/// The largest number in [1, most] that `fits`, where smaller ones fit too; 0 where none does.
template <class Fits>
[[nodiscard]] Result<std::int64_t> largest(std::int64_t most, Fits const& fits) {
    std::int64_t low = 0;
    auto high = most;
    while (low < high) {
        auto const middle = low + (high - low + 1) / 2;
        auto const answer = fits(middle);
        if (!answer) return answer.error();
        if (*answer) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/// The micro-batch that was asked for, or the largest that fits; one sequence where none does.
///
/// Errors  as predict_memory
[[nodiscard]] Result<> plan_micro_batch(TrainRequest const& request, std::vector<TrainingProgram> const& programs,
                                        RopeDivisors const& divisors, Bytes budget, TrainPlan& plan);

/// Plans a run with another micro-batch: what it takes follows.
///
/// Errors  as predict_memory
[[nodiscard]] Result<> replan_micro_batch(std::vector<TrainingProgram> const& programs, RopeDivisors const& divisors,
                                          std::int64_t size, TrainAnswer& answer);

/// The smallest changes that fit, each by itself; where none does, the fewest that do together: those that keep every bit first.
[[nodiscard]] std::vector<TrainFix> find_train_fixes(TrainRequest const& request, TrainPlan const& plan,
                                                     std::vector<TrainingProgram> const& programs,
                                                     RopeDivisors const& divisors, Bytes budget);

/// Measures for a tenth of a second how fast products are here; nothing where that cannot be told.
[[nodiscard]] std::optional<TrainTime> expect_time(TrainRequest const& request, TrainPlan const& plan,
                                                   Model const& model);

/// What the ranks of the fullest machine take together.
[[nodiscard]] Bytes fullest_of(TrainPlan const& plan, std::vector<TrainRankMemory> const& ranks);

}  // namespace shardwise::cli
