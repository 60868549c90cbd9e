// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/traffic.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/train/step_times.hpp>

#include "rank_kind.hpp"
#include "train_request.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::cli {

/// How a run is carried out.
struct TrainPlan {
    std::int64_t dp = 1;
    std::int64_t tp = 1;
    std::int64_t pp = 1;
    /// Data-parallel ranks are threads that train one copy of the weights.
    bool has_one_copy = false;
    /// Sequences that go forwards together.
    std::int64_t micro_batch = 1;
    /// Of a step, on the rank that has most.
    std::int64_t micro_batches = 1;
    std::int64_t context = 0;
    /// Steps of the whole run, and how they were found: "of 1 epoch".
    std::int64_t steps = 0;
    std::int64_t valid_every = 0;
    Schedule schedule{};
    /// What all ranks together take from each other in a step.
    CollectiveTraffic traffic{};
    /// Why it is so; and what would be faster, with what that takes.
    std::string reason, better;
    /// When data-parallel ranks exchange gradients; empty: there are none.
    std::string exchange;
    /// Ranks of a machine, neighbours, which share its memory; 0: all.
    std::int64_t per_machine = 0;

    [[nodiscard]] std::int64_t ranks() const { return dp * tp * pp; }
    /// Ranks that share one replica of the model.
    [[nodiscard]] std::int64_t replica() const { return tp * pp; }
};

/// A line of the CSV file.
struct TrainRow {
    /// Steps that are finished.
    std::int64_t step = 0;
    /// Tokens that were learnt until then, of all ranks.
    std::int64_t tokens = 0;
    double loss = 0.0;
    std::optional<double> valid_loss;
    /// What that took.
    double valid_seconds = 0.0;
    double learning_rate = 0.0;
    double norm = 0.0;
    bool is_skipped = false;
    double tokens_per_second = 0.0;
    /// Of the first rank.
    StepTimes times{};
};

struct SkippedStep {
    std::int64_t step = 0;
    /// Empty of a step before the checkpoint that the run went on from, which does not tell: causes name ranks.
    std::string cause;
};

/// What a rank was to take, and took.
struct TrainRankMemory {
    Bytes predicted{};
    /// Nothing where nothing ran.
    std::optional<Bytes> peak;
};

/// A start of the ranks after one of them failed.
struct TrainRestart {
    /// Where the run went on; nothing where the ranks failed before.
    std::optional<std::int64_t> step;
    std::int64_t ranks = 0;
    /// What failed: "rank 1 was ended by signal Killed".
    std::string cause;
    /// From the failure until the first step after it was finished; nothing where there was none.
    std::optional<double> seconds;
};

/// A change that would make a run fit.
struct TrainFix {
    std::string flags;
    Bytes bytes{};
};

/// How long a step takes at least: by its products alone, on each machine as fast as large ones were measured to be here.
struct TrainTime {
    /// Of a step, forwards and back, on all ranks.
    double operations = 0.0;
    double operations_per_second = 0.0;
    std::int64_t machines = 1;

    [[nodiscard]] double seconds() const { return operations / operations_per_second / static_cast<double>(machines); }
};

/// What `train` has to say.
struct TrainAnswer {
    std::string model;
    std::int64_t parameters = 0;
    std::int64_t trained = 0;
    TrainRequest request;
    TrainPlan plan;
    std::int64_t steps = 0;
    std::int64_t tokens = 0;
    std::optional<double> first_loss, last_loss, valid_loss, best_valid_loss;
    /// A signal ended the validation after the last step that was taken.
    bool owes_validation = false;
    /// SHA-256 of the last checkpoint's model.safetensors; empty: there is none.
    std::string weights_hash;
    /// Of all steps that were taken here, on the first rank; and what they and the end waited for checkpoints.
    StepTimes times{};
    double checkpoint_seconds = 0.0;
    std::int64_t steps_here = 0;
    std::int64_t tokens_here = 0;
    /// Of all ranks together.
    std::vector<Traffic> traffic;
    std::vector<TrainRankMemory> ranks;
    /// What the first rank's process held before its ranks began; and at most, once they have run. Nothing where the system does not tell.
    std::optional<Bytes> program, process_peak;
    std::vector<SkippedStep> skipped;
    std::vector<TrainRestart> restarts;
    /// All steps, also those before a checkpoint that the CSV file tells of.
    std::vector<TrainRow> rows;
    /// Their folders, the oldest first.
    std::vector<std::string> checkpoints;
    /// The folder of the model with the adapter in its weights; empty: none was asked for.
    std::string merged;
    /// "steps", "SIGINT", "SIGTERM", "SIGHUP" or "dry-run".
    std::string stopped_by;
    /// The signal that came to any of the ranks; 0: none.
    int signal = 0;
    /// What ranks are.
    RankKind ranks_are = RankKind::threads;
    /// What memory there is on each machine, and whether the run fits in it.
    Bytes budget{};
    bool is_fitting = true;
    std::vector<TrainFix> fixes;
    /// Of a dry run.
    std::optional<TrainTime> expected;
    std::vector<std::string> warnings;
};

[[nodiscard]] std::string train_json(TrainAnswer const& answer);
/// What was done, or would be.
[[nodiscard]] std::string train_text(TrainAnswer const& answer);

}  // namespace shardwise::cli
