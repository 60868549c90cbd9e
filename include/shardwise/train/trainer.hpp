// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/executor/training/training_pass.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/check_gradients.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/detail/agree_on_training.hpp>
#include <shardwise/train/detail/bad_step.hpp>
#include <shardwise/train/detail/check_cut.hpp>
#include <shardwise/train/detail/check_training.hpp>
#include <shardwise/train/detail/exchange_stream.hpp>
#include <shardwise/train/detail/leaf_passes.hpp>
#include <shardwise/train/detail/loss_scale.hpp>
#include <shardwise/train/detail/make_layers.hpp>
#include <shardwise/train/detail/measure_passes.hpp>
#include <shardwise/train/detail/sequences.hpp>
#include <shardwise/train/detail/step_clock.hpp>
#include <shardwise/train/detail/sum_twice.hpp>
#include <shardwise/train/detail/trainer_sizes.hpp>
#include <shardwise/train/detail/trainer_stages.hpp>
#include <shardwise/train/detail/training_groups.hpp>
#include <shardwise/train/sharded_optimizer.hpp>
#include <shardwise/train/token_mean.hpp>
#include <shardwise/train/train_options.hpp>
#include <shardwise/train/training_gradients.hpp>
#include <shardwise/train/training_phase.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Trains a model over ranks, of which one is a case: batches, loss and gradients of each rank's sequences, their sum by the tree over
/// the leaves of a global batch, clip, optimizer by schedule. The same bits for any ranks, micro-batches and threads. Ranks are
/// data-parallel; `TrainOptions` says which share layers or have some of them. Program and weights are that rank's.
///
/// Memory  bytes(...), allocated at creation
template <OptimizerRule Rule, Communicator Comm = HostCommunicator>
class Trainer {
public:
    /// What `create` allocates on a rank beside the weights.
    ///
    /// Errors  as plan_training_memory
    [[nodiscard]] static Result<Bytes> bytes(TrainingProgram const& program, Rule const& rule,
                                             BatchOptions const& batch, TrainOptions const& options,
                                             TensorPlace const& place = {}, RopeDivisors const& divisors = {}) {
        return detail::TrainerSizes<Rule>{program, rule, batch, options, place}.bytes(divisors);
    }
    /// What a rank takes from the others in a step that is not skipped, as `traffic` counts it.
    [[nodiscard]] static CollectiveTraffic traffic(TrainingProgram const& program, BatchOptions const& batch,
                                                   TrainOptions const& options, TensorPlace const& place) {
        return detail::TrainerSizes<Rule>{program, Rule{}, batch, options, place}.traffic();
    }

    /// A rank of a group that trains together: all call it with the same but their own context, weights with equal bits, and memory.
    /// `comm`, `program` and `weights` outlive this, and what `batches` reads.
    ///
    /// Errors  invalid_argument, also for more ranks than sequences of a batch; collective_mismatch with the ranks whose weights
    ///         differ; as plan_training_memory and ShardedOptimizer::create. What fails on one fails on all.
    [[nodiscard]] static Result<Trainer> create(HostContext& context, Comm& comm, TrainingProgram const& program,
                                                TrainingWeights& weights, Rule const& rule, Batches batches,
                                                TrainOptions const& options, RopeDivisors const& divisors = {}) {
        if (auto const checked = agree_on(comm, options.check()); !checked) return checked.error();
        detail::ReplicaDegrees const degrees{options.tp, options.pp, options.head_stage()};
        auto groups = detail::TrainingGroups<Comm>::create(comm, degrees, options.zero == ZeroStage::weights);
        if (!groups) return groups.error();
        auto made = make(context, std::move(*groups), program, weights, rule, std::move(batches), options, divisors);
        auto const agreed_on = agree_on(comm, made ? Result<>{} : Result<>{made.error()});
        if (!agreed_on) return agreed_on.error();
        if (comm.size() == 1) return made;
        auto const hash = detail::hash_of_training(Rule::name, program.layout(), made->batches_, options);
        if (auto const agreed = detail::agree_on_training(comm, hash); !agreed) return agreed.error();
        auto alike = detail::agree_on_weights(made->groups_, std::as_const(weights), options.has_one_copy);
        if (alike && made->stages_) alike = made->stages_->passes.compare();
        if (!alike) return made->groups_.end(alike.error());
        made->groups_.measure_calls();
        return made;
    }

    [[nodiscard]] TrainOptions const& options() const { return options_; }
    [[nodiscard]] TrainingWeights& weights() { return *weights_; }
    /// Whether a checkpoint is read into this rank's weights: of one copy into rank 0's.
    [[nodiscard]] bool owns_weights() { return !options_.has_one_copy || comm().rank() == 0; }
    /// With its state: what a checkpoint writes and reads.
    [[nodiscard]] ShardedOptimizer<Rule>& optimizer() { return optimizer_; }
    [[nodiscard]] Batches const& batches() const { return batches_; }
    [[nodiscard]] TrainingGradients const& gradients() const { return gradients_; }
    /// What fetches layers' weights one at a time (ZeRO 3, offload of all, weights in bf16); null where they are whole.
    [[nodiscard]] GatheredLayers const* layers() const { return pass_.layers(); }
    /// Of all ranks.
    [[nodiscard]] Comm& comm() { return groups_.world(); }
    /// What this rank took from others in any of its groups.
    [[nodiscard]] Traffic traffic() { return groups_.traffic(); }
    [[nodiscard]] HostContext& context() { return *context_; }
    /// What this rank is at, which errors of lost ranks and deadlines name.
    [[nodiscard]] TrainingPhases& phases() { return phases_; }
    /// Of a pipeline's rank, the table that it follows and what it did in the last step; null where each rank has all layers.
    [[nodiscard]] PipelineSchedule const* pipeline_table() const {
        return stages_ ? &stages_->passes.plan().table : nullptr;
    }
    [[nodiscard]] PipelineRecord const* pipeline_record() const {
        return stages_ ? &stages_->passes.record() : nullptr;
    }

    /// Where the run is.
    [[nodiscard]] TrainerPosition state() const { return scale_.put({next_, skipped_.steps()}); }
    /// Goes on from there; weights and the optimizer's state are those of that moment. All ranks call it with the same.
    ///
    /// Errors  invalid_argument for steps that are not in order or not before the next one; collective_mismatch with the ranks whose
    ///         position or weights differ. What fails on one rank fails on all.
    [[nodiscard]] Result<> restore(TrainerPosition const& state) {
        if (auto const agreed = detail::agree_on_position(comm(), state); !agreed) return agreed;
        if (auto const restored = scale_.restore(state); !restored) return restored;
        if (auto const agreed = detail::agree_on_weights(groups_, std::as_const(*weights_), options_.has_one_copy);
            !agreed)
            return groups_.end(agreed.error());
        if (groups_.tensor() != nullptr) {
            auto stream = context_->make_stream();
            detail::renew_turned(pass_.layers(), *weights_, *groups_.tensor(), stream);
            auto const done = stream.synchronize(Deadline::after(options_.timeout));
            if (!done) return groups_.end(done.error());
        }
        next_ = state.step;
        skipped_ = SkippedSteps(options_.max_skipped, state.skipped, state.step);
        return {};
    }
    /// Asks all ranks to stop before the next step, which then gives nothing.
    void request_stop() { is_stopping_ = true; }

    /// The next step; nothing where all were taken or a rank has asked to stop. All ranks call it.
    ///
    /// Order   waits for the stream; its weights have changed then, unless the step was skipped
    /// Errors  as Batches::read and a collective; deadline_exceeded; max_skipped steps in a row without a gradient that is a
    ///         number. What fails on one rank fails on all, and ends the group.
    [[nodiscard]] Result<Optional<TrainedStep>> step(HostStream& stream) {
        if (next_ >= options_.steps) return Optional<TrainedStep>{};
        detail::StepClock clock(groups_);
        detail::BesideClock const beside(pass_.layers(), gradients_.beside());
        auto deadline = phase_deadline();
        auto done = take_step(clock, stream, deadline);
        if (!done) return end(done.error(), stream, deadline);
        if (!*done) return done;
        ++next_;
        clock.take(&StepTimes::compute);
        (*done)->times = clock.times();
        beside.add_to((*done)->times);
        return done;
    }

    /// All steps that are left, one after another; `after(step)` is called behind each, on every rank, and may ask to stop.
    ///
    /// Order   waits for the stream
    /// Errors  as step; those of `after`, on all ranks
    template <class After>
    [[nodiscard]] Result<std::vector<TrainedStep>> run(HostStream& stream, After&& after) {
        std::vector<TrainedStep> out;
        while (true) {
            auto const done = step(stream);
            if (!done) return done.error();
            if (!*done) return out;
            out.push_back(**done);
            Result<> const went = after(out.back());
            if (!went) return groups_.end(went.error());
        }
    }
    [[nodiscard]] Result<std::vector<TrainedStep>> run(HostStream& stream) {
        return run(stream, [](TrainedStep const&) { return Result<>{}; });
    }

    /// How long the passes of the next step take with their sum. Nothing changes. All ranks call it and get the time of the slowest.
    ///
    /// Order, Errors  as step
    [[nodiscard]] Result<std::chrono::nanoseconds> measure(HostStream& stream) {
        (void)detail::trim_files(options_, pass_.layers(), optimizer_, gradients_, *weights_);
        auto const time = detail::measure_passes(comm(), options_.timeout, [&](Deadline deadline) -> Result<> {
            gradients_.clear();
            if (auto const read = read_batch(); !read) return read;
            if (auto const summed = sum_leaves(1.0F, stream, deadline); !summed) return summed;
            return stream.synchronize(deadline);
        });
        return time ? time : Result<std::chrono::nanoseconds>(end(time.error(), stream, phase_deadline()));
    }

    /// The mean loss over the first epoch of a held-out set, the same bits on any ranks; nothing where `stops()`, asked on each rank before
    /// each micro-batch, has said so on one. All ranks call it; no weight changes.
    ///
    /// Order   waits for the stream
    /// Errors  shape_mismatch for longer sequences than those of training; as Batches::read and a collective, on all ranks
    [[nodiscard]] Result<Optional<TokenMean>> validate(Batches held_out, HostStream& stream,
                                                       std::function<bool()> const& stops) {
        (void)detail::trim_files(options_, pass_.layers(), optimizer_, gradients_, *weights_);
        if (auto const begun = phases_.begin(TrainingPhase::validation); !begun) return groups_.end(begun.error());
        auto mean = passes().sum_losses(held_out, stream, stops,
                                        [this](std::int64_t count, HostStream& on, Deadline deadline) -> Result<> {
                                            if (stages_) return stages_->passes.losses(passes(), count, on, deadline);
                                            return passes().losses(count, on, deadline);
                                        });
        if (!mean) return phases_.name(groups_.end(phases_.name(mean.error())));
        return mean;
    }
    [[nodiscard]] Result<TokenMean> validate(Batches held_out, HostStream& stream) {
        auto const mean = validate(std::move(held_out), stream, {});
        return mean ? Result<TokenMean>(**mean) : Result<TokenMean>(mean.error());
    }

private:
    static constexpr double max_norm = 1e29;  // clips nothing

    using Groups = detail::TrainingGroups<Comm>;
    Trainer(HostContext& context, Groups groups, TrainingProgram const& program, TrainingWeights& weights,
            Batches batches, TrainOptions const& options, TrainingPass pass, TrainingGradients gradients,
            ShardedOptimizer<Rule> optimizer, detail::Sequences sequences, std::optional<detail::TrainerStages> stages)
        : context_(&context),
          groups_(std::move(groups)),
          program_(&program),
          weights_(&weights),
          batches_(std::move(batches)),
          options_(options),
          pass_(std::move(pass)),
          gradients_(std::move(gradients)),
          optimizer_(std::move(optimizer)),
          sequences_(std::move(sequences)),
          stages_(std::move(stages)),
          scale_(options.precision),
          skipped_(options.max_skipped) {}

    [[nodiscard]] static Result<Trainer> make(HostContext& context, Groups groups, TrainingProgram const& program,
                                              TrainingWeights& weights, Rule const& rule, Batches batches,
                                              TrainOptions const& options, RopeDivisors const& divisors) {
        auto const batch = batches.options();
        if (auto const cut = detail::check_cut(rule, program.layout()); !cut) return cut.error();
        TensorPlace const world{groups.world().size(), groups.world().rank()};
        detail::TrainerSizes<Rule> const sizes{program, rule, batch, options, world};
        auto const& layout = program.layout();
        auto const pipeline = options.model_place(world.rank).pipeline;
        auto const fits = detail::check_training(program, weights, batches, sizes.data().ranks, pipeline);
        if (!fits) return fits.error();
        auto const limits = sizes.limits();
        if (!limits) return limits.error();
        auto layers = detail::make_layers(context, groups.weights(), program, weights, sizes.weights(), options);
        if (!layers) return layers.error();
        auto pass = TrainingPass::create(context, program, *limits, divisors, groups.tensor(), std::move(*layers));
        if (!pass) return pass.error();
        auto stages = detail::TrainerStages::create(context, groups.pipeline(), sizes);
        if (!stages) return stages.error();
        std::optional<std::chrono::nanoseconds> beside;
        if (detail::runs_beside(groups.data(), options.is_replicated())) beside = options.own_timeout();
        auto gradients = TrainingGradients::create(context, layout, sizes.sums(), beside);
        if (!gradients) return gradients.error();
        auto optimizer = ShardedOptimizer<Rule>::create(context, rule, detail::optimized_parameters(layout, weights),
                                                        sizes.optimizer(), options.offload_folder);
        if (!optimizer) return optimizer.error();
        auto sequences = detail::Sequences::create(context, gradients->count(), batch.context);
        if (!sequences) return sequences.error();
        return Result<Trainer>(Trainer(context, std::move(groups), program, weights, std::move(batches), options,
                                       std::move(*pass), std::move(*gradients), std::move(*optimizer),
                                       std::move(*sequences), std::move(*stages)));
    }

    [[nodiscard]] Result<Optional<TrainedStep>> take_step(detail::StepClock<Groups>& clock, HostStream& stream,
                                                          Deadline& deadline) {
        // A step that was refused may have left some leaves.
        gradients_.clear();
        auto const trim = detail::trim_files(options_, pass_.layers(), optimizer_, gradients_, *weights_);
        phases_.begin_step(next_);
        auto const begun = phases_.begin(TrainingPhase::data);
        if (auto const read = begun ? read_batch() : begun; !read) return read.error();
        clock.take(&StepTimes::data);
        std::array<std::int64_t, 2> sums{groups_.is_counted() ? sequences_.counted(gradients_.count()) : 0,
                                         is_stopping_ ? 1 : 0};
        if (auto const summed = all_reduce(comm(), TensorView<std::int64_t, 1, Host>{sums.data(), {2}}); !summed)
            return summed.error();
        if (sums[1] > 0) return Optional<TrainedStep>{};
        TrainedStep out{.number = next_, .learning_rate = options_.schedule.at(next_), .tokens = sums[0]};
        if (sums[0] == 0) return skip(out, no_counted_token(next_ + 1));
        auto const scale = static_cast<float>(scale_.factor() / static_cast<double>(sums[0]));
        auto const difference = sum_checked(scale, stream, deadline);
        if (!difference) return difference.error();
        phases_.begin(TrainingPhase::norm, stream);
        deadline = phase_deadline();
        // `end` can wait for a thread that still uses the group; global_norm ends it at once.
        if (auto const summed = stream.synchronize(deadline); !summed) return summed.error();
        auto const norm = global_norm(comm(), gradients_.counted(groups_.is_first_of_layer()), stream, deadline,
                                      options_.is_fast, trim);
        if (!norm) return norm.error();
        TokenMean mean;
        if (groups_.is_counted()) {
            if (auto const added = sequences_.add_losses(gradients_.count(), mean); !added) return added.error();
        }
        if (auto const summed = mean.sum_over_ranks(comm()); !summed) return summed.error();
        out.loss = mean.mean();
        out.norm = *norm / scale_.factor();
        if (*difference) return skip(out, **difference);
        if (!mean.is_finite() || !(*norm < HUGE_VAL)) return skip_bad(out);
        auto const factor = clip_coefficient(out.norm, options_.clip.value_or(max_norm));
        if (!factor) return factor.error();
        OptimizerStep const update{.number = next_ + 1 - static_cast<std::int64_t>(skipped_.steps().size()),
                                   .learning_rate = out.learning_rate,
                                   .gradient_factor = *factor / scale_.factor()};
        clock.take(&StepTimes::compute);
        deadline = phase_deadline();
        phases_.begin(TrainingPhase::optimizer, stream);
        if (auto const stepped = optimizer_.step(update, gradients_.held(), stream); !stepped) return stepped.error();
        if (options_.shared() != ZeroStage::none && !weights_->shares().is_shared()) {
            phases_.begin(TrainingPhase::gather, stream);
            auto const gathered = optimizer_.gather(groups_.data(), stream, options_.has_one_copy);
            if (!gathered) return gathered.error();
        }
        if (groups_.tensor() != nullptr) detail::renew_turned(pass_.layers(), *weights_, *groups_.tensor(), stream);
        if (auto const ended = stream.synchronize(deadline); !ended) return ended.error();
        clock.take(&StepTimes::optimizer);
        skipped_.take();
        scale_.update(false);
        if (options_.checks(next_)) {
            auto const agreed = detail::agree_on_weights(groups_, std::as_const(*weights_), options_.has_one_copy);
            if (!agreed) return agreed.error();
        }
        return Optional<TrainedStep>{out};
    }

    [[nodiscard]] Deadline phase_deadline() const { return Deadline::after(options_.own_timeout()); }

    [[nodiscard]] Error end(Error const& error, HostStream& stream, Deadline deadline) {
        return detail::end_step(error, phases_, groups_, gradients_, stream, options_.own_timeout(), deadline);
    }

    [[nodiscard]] Result<> read_batch() {
        sequences_.set_length(batches_.options().context);
        for (std::int64_t i = 0; i < gradients_.count(); ++i) {
            auto const position = next_ * batches_.options().batch;
            if (auto const read = sequences_.read(batches_, position, gradients_.leaf_number(i), i); !read) return read;
        }
        return {};
    }

    [[nodiscard]] detail::LeafPasses<Comm> passes() {
        return {options_, batches_.options(), groups_, *weights_, pass_, gradients_, sequences_, phases_};
    }

    [[nodiscard]] Result<> add_leaves(float scale, HostStream& stream, Deadline deadline) {
        return stages_ ? stages_->passes.add(passes(), next_, scale, stream, deadline)
                       : passes().add(next_, scale, stream);
    }
    /// Brings the leaves of all ranks into the sums of the gradients.
    [[nodiscard]] Result<> sum_leaves(float scale, HostStream& stream, Deadline deadline) {
        if (auto const done = add_leaves(scale, stream, deadline); !done) return done;
        phases_.begin(TrainingPhase::bucket, stream);
        if (auto const summed = gradients_.sum(groups_.data(), stream); !summed) return summed;
        if (stages_) stages_->ties.exchange(gradients_, *groups_.pipeline(), stream);
        return {};
    }
    /// The same; of a step that is checked what is not the same twice.
    [[nodiscard]] Result<std::optional<Error>> sum_checked(float scale, HostStream& stream, Deadline& deadline) {
        auto const sum = [&] { return sum_leaves(scale, stream, deadline = phase_deadline()); };
        if (!options_.checks(next_)) return detail::sum_once(sum);
        return detail::sum_twice(comm(), program_->layout(), gradients_, next_ + 1, stream, deadline, sum);
    }
    /// Counts a step that changes no weight.
    [[nodiscard]] Result<Optional<TrainedStep>> skip(TrainedStep step, Error const& why) {
        step.skipped = why.message();
        if (auto const counted = skipped_.skip(next_, why); !counted) return counted.error();
        return Optional<TrainedStep>{step};
    }
    /// Finds out what made the loss or the norm no number.
    [[nodiscard]] Result<Optional<TrainedStep>> skip_bad(TrainedStep const& step) {
        scale_.update(true);
        auto const why = detail::find_bad_step(comm(), program_->layout(), gradients_, next_ + 1, step.norm < HUGE_VAL);
        return why ? skip(step, **why) : Result<Optional<TrainedStep>>(why.error());
    }

    HostContext* context_;
    Groups groups_;
    TrainingProgram const* program_;
    TrainingWeights* weights_;
    Batches batches_;
    TrainOptions options_;
    TrainingPass pass_;
    TrainingGradients gradients_;
    ShardedOptimizer<Rule> optimizer_;
    detail::Sequences sequences_;
    std::optional<detail::TrainerStages> stages_;
    std::int64_t next_ = 0;
    detail::LossScale scale_;
    SkippedSteps skipped_;
    TrainingPhases phases_;
    bool is_stopping_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
