// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/training/rounded_values.hpp>
#include <shardwise/executor/training/training_dropout.hpp>
#include <shardwise/executor/training/training_stage.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/schedule/pipeline_kind.hpp>
#include <shardwise/train/buckets.hpp>
#include <shardwise/train/schedule.hpp>
#include <shardwise/train/step_times.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What ranks share of training beside the batch (Rajbhandari et al., ZeRO, 2020). The bits are those of `none`.
enum class ZeroStage : std::uint8_t {
    none,       // each rank has all gradients, and the optimizer's whole state
    optimizer,  // a rank gets its share of the sum of gradients and has the optimizer's state of it: stage 1
    gradients,  // and holds sums of its share alone, whose leaves are exchanged one after another: stage 2
    weights,  // and has its share of the weights alone, of which each layer's are gathered before it is computed: stage 3
};

/// How a model is trained: the same on all ranks.
struct TrainOptions {
    /// Steps, counted from the first that the weights have seen.
    std::int64_t steps = 0;
    /// The largest norm of all gradients; nothing: they are not clipped.
    std::optional<double> clip = 1.0;
    /// Sequences of a rank that go forwards together. The results do not depend on it.
    std::int64_t micro_batch = 1;
    /// What the backward pass computes again, a sequence at a time, rather than to have it kept. The results do not depend on it.
    Recompute recompute = Recompute::none;
    /// What layers compute in, but for their hidden state: f32, bf16, or f16 with a loss that is scaled (LossScaler). Weights, gradients'
    /// sums and the optimizer's state are float32 in any of them.
    Dtype precision = Dtype::f32;
    /// The share of elements that dropout makes 0, of the hidden state before the first layer and of what layers add to it; none in
    /// validation. Which ones follows from seed, step, layer, the sequence's place in the batch, token and feature.
    double dropout = 0.0;
    std::uint64_t dropout_seed = 0;
    Schedule schedule{};
    ZeroStage zero = ZeroStage::none;
    /// All ranks are threads that were given the same weights, rank 0's, and change them together: each the share whose optimizer's state
    /// it has, at `zero` none too. For data-parallel ranks alone, at most at ZeRO 2. The results do not depend on it.
    bool has_one_copy = false;
    /// Gradients are exchanged in buckets of parameters, in the order in which a backward pass ends them, while it goes on. The results
    /// do not depend on it.
    BucketLimits buckets{};
    /// Ranks that share each layer: of all ranks, neighbours. The results do not depend on it.
    std::int32_t tp = 1;
    /// Stages of a pipeline, each with some of the layers: of all ranks, those next after a stage's tensor-parallel ones. And the table that
    /// they follow. The results depend on neither.
    std::int32_t pp = 1;
    PipelineKind pipeline = PipelineKind::one_forward_one_backward;
    /// A folder in which the optimizer's state lies in a file, in place of memory (offload); empty: in memory. The results do not depend on
    /// it.
    std::string offload_folder{};
    /// Weights and gradients lie in files there, too: a layer's weights are read while the one before is computed. The results do not depend
    /// on it. Pages that a part of a step touches and gives back (a layer's gradients, 4 MiB of each file) are none of the counted bytes.
    bool offloads_all = false;
    /// Adds gradients up in the order of the least work: a rank's leaves into one sum as they come, and the ranks' sums once a step. Other
    /// ranks and stages of ZeRO round otherwise; micro-batches, threads and what is computed again change nothing here either.
    bool is_fast = false;
    /// Of so many steps one is checked; 0: none. Its gradients are computed twice, and a step in which they are not the same is skipped; at
    /// its end ranks compare their weights, which they do at creation as well.
    std::int64_t check_every = 0;
    /// So many steps in a row that are skipped because of a gradient that is no number end the run; of 0 the first one does.
    std::int64_t max_skipped = 10;
    /// For each phase of a step, and in the passes for each micro-batch.
    std::chrono::nanoseconds timeout = std::chrono::seconds(600);

    /// Errors  invalid_argument with the field that makes no sense
    [[nodiscard]] Result<> check() const {
        Error bad{ErrorCode::invalid_argument};
        bad.in("training");
        if (steps < 0) return bad.at("steps").because("are negative").got(steps).at_least(0);
        if (micro_batch < 1) return bad.at("micro_batch").because("has no sequence").got(micro_batch).at_least(1);
        if (!(dropout >= 0.0 && static_cast<float>(dropout) < 1.0F))
            return bad.at("dropout").because("must be at least 0 and below 1");
        if (max_skipped < 0) return bad.at("max_skipped").because("is negative").got(max_skipped).at_least(0);
        if (clip && !(*clip > 0.0 && *clip < 1e29))
            return bad.at("clip").because("is no positive number").fix("give a number above 0, or do not clip");
        if (check_every < 0) return bad.at("check_every").because("is negative").got(check_every).at_least(0);
        if (buckets.first.count() < 1 || buckets.cap.count() < 1)
            return bad.at("buckets").because("are closed at no size").fix("give them at least a byte");
        if (auto const known = check_precision(precision); !known) return known;
        if (tp < 1) return bad.at("tp").because("has no rank").got(tp).at_least(1);
        if (offloads_all && offload_folder.empty())
            return bad.at("offload_folder").because("is not named, in which weights and gradients are to lie");
        if (pp < 1) return bad.at("pp").because("has no stage").got(pp).at_least(1);
        if (has_one_copy && !can_share_copy())
            return Error{ErrorCode::unsupported}
                .in("training")
                .at("has_one_copy")
                .because("is for ranks that each compute with all weights")
                .fix("leave it out, or use data-parallel ranks alone");
        return schedule.check();
    }
    /// Whether a step, counted from 0, is checked.
    [[nodiscard]] bool checks(std::int64_t step) const { return check_every > 0 && (step + 1) % check_every == 0; }
    /// Whether each rank has the whole model, and its passes need no other one.
    [[nodiscard]] bool is_replicated() const { return tp == 1 && pp == 1 && zero != ZeroStage::weights; }
    /// Whether data-parallel ranks that are threads can train one copy of the weights.
    [[nodiscard]] bool can_share_copy() const { return is_replicated(); }
    /// What ranks share in effect: weights that all of them change have one optimizer's state.
    [[nodiscard]] ZeroStage shared() const { return has_one_copy ? std::max(zero, ZeroStage::optimizer) : zero; }
    /// Whether backward passes are in two parts.
    [[nodiscard]] bool is_split() const {
        return pp > 1 && (pipeline == PipelineKind::zero_bubble || pipeline == PipelineKind::zero_bubble_v);
    }
    /// The stage that has the head, and so the losses.
    [[nodiscard]] std::int64_t head_stage() const {
        auto const of_model = model_place(0).pipeline;
        return of_model.owner(of_model.virtual_stages() - 1);
    }
    /// Where weights and gradients lie; empty: in memory.
    [[nodiscard]] std::string weights_folder() const { return offloads_all ? offload_folder : std::string(); }
    /// The part of a model of one of the ranks that share a replica of it, of which there are tp * pp.
    [[nodiscard]] TrainingPlace model_place(std::int64_t rank) const {
        TrainingStage const stage{.stages = pp,
                                  .stage = rank / tp % pp,
                                  .chunks = pp > 1 ? pipeline_chunks(pipeline) : 1,
                                  .order = pp > 1 ? pipeline_order(pipeline) : ChunkOrder::round};
        return {TensorPlace{tp, rank % tp}, stage};
    }
    /// How long a rank waits for its own work: the calls in it wait for other ranks as long as `timeout`, and say which of them did not come.
    [[nodiscard]] std::chrono::nanoseconds own_timeout() const {
        constexpr auto longest = std::chrono::nanoseconds::max();
        return timeout < longest / 2 ? 2 * timeout : longest;
    }
    /// Of a step's sequences with these numbers in the global batch.
    [[nodiscard]] TrainingDropout dropout_at(std::int64_t step, List<std::uint32_t> sequences) const {
        return {static_cast<float>(dropout), dropout_seed, static_cast<std::uint64_t>(step), std::move(sequences)};
    }
};

/// What one step gave: the same on all ranks, but for its times.
struct TrainedStep {
    /// Counted from 0: its batch follows from it.
    std::int64_t number = 0;
    /// The mean over all tokens of the batch that count, before the weights changed; 0 where none counts.
    double loss = 0.0;
    /// Of the loss's gradients, before they were clipped.
    double norm = 0.0;
    double learning_rate = 0.0;
    /// Of the batch, those that count.
    std::int64_t tokens = 0;
    /// Why no weight changed; empty where weights did.
    std::string skipped{};
    /// Of this rank: no part of what steps are compared by.
    StepTimes times{};

    [[nodiscard]] bool is_skipped() const { return !skipped.empty(); }
    /// By bits: a loss that is no number equals itself.
    friend bool operator==(TrainedStep const& a, TrainedStep const& b) {
        auto const bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
        return a.number == b.number && bits(a.loss) == bits(b.loss) && bits(a.norm) == bits(b.norm) &&
               bits(a.learning_rate) == bits(b.learning_rate) && a.tokens == b.tokens && a.skipped == b.skipped;
    }
};

/// Where a run is: with weights and the optimizer's state all that it takes to go on.
struct TrainerPosition {
    /// The next step.
    std::int64_t step = 0;
    /// Steps before it that changed no weight.
    List<std::int64_t> skipped{};
    /// Of the loss scaler, its two numbers (LossScaler::resume); a scale of 0: there is none.
    double loss_scale = 0.0;
    std::int64_t good_steps = 0;

    friend bool operator==(TrainerPosition const&, TrainerPosition const&) = default;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
