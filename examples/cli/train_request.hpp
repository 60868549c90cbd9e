// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/executor/training/trained_adapter.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/quant/quant_scheme.hpp>
#include <shardwise/schedule/pipeline_kind.hpp>
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/choose_training.hpp>
#include <shardwise/train/schedule.hpp>
#include <shardwise/train/sgd.hpp>

#include "arguments.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::cli {

/// What `train` was asked for, checked as far as that is possible without the model and the data.
struct TrainRequest {
    std::string model;
    std::vector<std::string> data;
    std::string out;
    bool is_from_scratch = false;
    std::optional<std::string> tokenizer, valid;
    std::optional<double> valid_part;
    /// Nothing: a tenth of the steps.
    std::optional<std::int64_t> valid_every;
    /// Nothing: the model's, at most 1024.
    std::optional<std::int64_t> context;
    std::int64_t batch = 8;
    Recompute recompute = Recompute::none;
    /// What layers compute in.
    Dtype precision = Dtype::f32;
    double dropout = 0.0;
    /// Nothing: auto.
    std::optional<std::int64_t> micro_batch;
    /// Of those that fit, the fastest is taken.
    bool is_tuned = false;
    /// Nothing: of the epochs.
    std::optional<std::int64_t> steps;
    double epochs = 1.0;
    OptimizerKind optimizer = OptimizerKind::adam;
    /// Of adamw and adam8bit.
    AdamW adamw{};
    /// Weights lie in bf16, without fp32 masters: KahanSum.
    bool kahan_sum = false;
    Sgd sgd{.weight_decay = 0.1};
    /// Without its total, which follows from the data.
    Schedule schedule{.floor = 0.1};
    /// Nothing: gradients are not clipped.
    std::optional<double> clip = 1.0;
    std::uint64_t seed = 0;
    std::int64_t dp = 1;
    std::int64_t tp = 1;
    std::int64_t pp = 1;
    PipelineKind pipeline = PipelineKind::one_forward_one_backward;
    /// Stage of ZeRO.
    std::int32_t zero = 0;
    /// --mode auto: what of degrees and ZeRO was not given is chosen.
    bool is_auto = true;
    /// What was given of them.
    TrainingPins pins;
    /// A launcher's ranks, whose degrees are still to be chosen; else 0.
    std::int64_t free_ranks = 0;
    /// --mode auto was written out, with no degree: one rank trains where others cannot be had. And why it does.
    bool may_fall_back = false;
    bool has_no_fallback = false;
    std::string fallback;
    /// What lies in files of `out`: nothing, the optimizer's state, or weights and gradients, too.
    Offload offload = Offload::none;
    /// MiB of gradients that ranks exchange together; nothing: the first MiB, then 25.
    std::optional<std::int64_t> bucket_mb;
    /// Gradients are added up in the order of the least work: TrainOptions::is_fast.
    bool is_fast = false;
    /// Steps from one comparison of the ranks' weights to the next; 0: never.
    std::int64_t check_gradients = 0;
    /// Of rank 0: all weights are trained.
    LowRankOptions low_rank;
    /// How the base of an adapter is packed; nothing: as its files have it.
    Optional<QuantScheme> quant;
    /// 0: the machine's cores.
    int threads = 0;
    /// Nothing: the end only.
    std::optional<std::int64_t> save_every;
    std::int64_t keep = 2;
    /// "auto", "none" or a folder; nothing: auto where there are checkpoints.
    std::optional<std::string> resume;
    std::chrono::seconds timeout{600};
    std::int64_t max_skipped = 10;
    /// Starts after a rank has died; and the fewest ranks that go on.
    std::int64_t max_restarts = 0;
    std::int64_t min_ranks = 1;
    std::optional<std::string> csv, svg;
    bool is_dry_run = false;
    /// Of an adapter: a model without it is written at the end.
    bool is_merged = false;

    [[nodiscard]] std::int64_t ranks() const { return free_ranks > 0 ? free_ranks : dp * tp * pp; }
    [[nodiscard]] Adam8bit adam8bit() const {
        return {
            .beta1 = adamw.beta1, .beta2 = adamw.beta2, .epsilon = adamw.epsilon, .weight_decay = adamw.weight_decay};
    }
};

/// Reads the flags of `train`, those of its options file included.
///
/// Errors  unknown_name with the nearest right word; invalid_argument with the range, and for flags that exclude each other;
///         unsupported and no_such_device for what does not run yet, with what does
[[nodiscard]] Result<TrainRequest> read_train_request(Arguments const& arguments);

/// "adamw".
[[nodiscard]] std::string_view train_optimizer_name(OptimizerKind kind);

}  // namespace shardwise::cli
