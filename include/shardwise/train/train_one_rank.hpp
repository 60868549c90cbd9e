// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/training/training_pass.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/gradient_tree.hpp>
#include <shardwise/train/schedule.hpp>
#include <shardwise/train/sharded_optimizer.hpp>
#include <shardwise/train/token_mean.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a model is trained on one rank.
struct TrainOptions {
    /// Steps, counted from the first that the weights have seen.
    std::int64_t steps = 0;
    /// The largest norm of all gradients; nothing: they are not clipped.
    std::optional<double> clip = 1.0;
    /// Sequences that go forwards together. The results do not depend on it.
    std::int64_t micro_batch = 1;
    Schedule schedule{};
    /// For one step.
    std::chrono::seconds timeout = std::chrono::seconds(600);
};

/// What one step gave.
struct TrainedStep {
    /// The mean over all tokens of the batch that count, before the weights changed.
    double loss = 0.0;
    /// Of the loss's gradients, before they were clipped.
    double norm = 0.0;
    double learning_rate = 0.0;

    friend bool operator==(TrainedStep const&, TrainedStep const&) = default;
};

/// Trains a model on one rank: batches, loss and gradients of each sequence, their sum by the tree over the leaves of a batch, clip,
/// optimizer by schedule. The same bits for any micro-batch and any threads.
///
/// Memory  bytes(...), allocated at creation
template <OptimizerRule Rule>
class OneRankTrainer {
public:
    /// What `create` allocates beside the weights.
    ///
    /// Errors  as plan_training_memory
    [[nodiscard]] static Result<Bytes> bytes(TrainingProgram const& program, Rule const& rule,
                                             BatchOptions const& batch, TrainOptions const& options,
                                             RopeDivisors const& divisors = {}) {
        auto const plan = plan_training_memory(program, limits_of(batch, options), divisors);
        if (!plan) return plan.error();
        auto const& layout = program.layout();
        // The optimizer's state is counted by sizes alone.
        List<OptimizedParameter> parameters;
        for (auto const& parameter : layout.parameters()) parameters.push_back({{}, {nullptr, {parameter.elements}}});
        return plan->bytes() + ShardedOptimizer<Rule>::state_bytes(rule, parameters, {}) +
               GradientTree::bytes(layout.gradient_elements(), batch.batch, {}, TreeResult::whole);
    }

    /// `program`, `weights` and `batches` outlive this.
    ///
    /// Errors  invalid_argument; as plan_training_memory, GradientTree::create and ShardedOptimizer::create; out_of_memory
    [[nodiscard]] static Result<OneRankTrainer> create(HostContext& context, TrainingProgram const& program,
                                                       TrainingWeights& weights, Rule const& rule, Batches& batches,
                                                       TrainOptions const& options, RopeDivisors const& divisors = {}) {
        if (auto const checked = options.schedule.check(); !checked) return checked.error();
        Error bad{ErrorCode::invalid_argument};
        bad.in(subject);
        if (options.steps < 0) return bad.at("steps").because("are negative").got(options.steps).at_least(0);
        if (options.micro_batch < 1)
            return bad.at("micro_batch").because("has no sequence").got(options.micro_batch).at_least(1);
        if (&weights.model() != &program.model()) return bad.at("weights").because("are those of another model");
        auto const vocabulary = program.model().config.vocab_size;
        if (batches.vocabulary() > vocabulary)
            return bad.at("vocabulary")
                .because("of the data is larger than the model's")
                .got(batches.vocabulary())
                .at_most(vocabulary);
        auto const& batch = batches.options();
        auto pass = TrainingPass::create(context, program, limits_of(batch, options), divisors);
        if (!pass) return pass.error();
        auto tree = GradientTree::create(context, program.layout().gradient_elements(), batch.batch, {},
                                         TreeResult::whole);
        if (!tree) return tree.error();
        List<OptimizedParameter> parameters;
        for (std::size_t i = 0; i < program.layout().parameters().size(); ++i) {
            auto const& parameter = program.layout().parameters()[i];
            parameters.push_back({parameter.name, weights.values(i),
                                  decays_weight(parameter.name, parameter.tensor->shape.rank())});
        }
        auto optimizer = ShardedOptimizer<Rule>::create(context, rule, std::move(parameters));
        if (!optimizer) return optimizer.error();
        return Result<OneRankTrainer>(OneRankTrainer(program, weights, batches, options, std::move(*pass),
                                                     std::move(*tree), std::move(*optimizer)));
    }

    [[nodiscard]] ShardedOptimizer<Rule>& optimizer() { return optimizer_; }

    /// All steps, one after another.
    ///
    /// Order   waits for the stream
    /// Errors  as step
    [[nodiscard]] Result<std::vector<TrainedStep>> run(HostStream& stream) {
        std::vector<TrainedStep> out;
        for (std::int64_t number = 0; number < options_.steps; ++number) {
            auto const done = step(number, stream);
            if (!done) return done.error();
            out.push_back(*done);
        }
        return out;
    }

    /// One step, counted from 0: its batch follows from its number.
    ///
    /// Order   waits for the stream; its weights have changed then
    /// Errors  invalid_argument for a batch without a token that counts, and for a loss or gradient that is no number, in
    ///         which case no weight has changed; as Batches::read; deadline_exceeded
    [[nodiscard]] Result<TrainedStep> step(std::int64_t number, HostStream& stream) {
        auto const deadline = Deadline::after(options_.timeout);
        auto const group = ThreadsGroup::create(1);
        auto comm = group->join(0);
        if (!comm) return comm.error();
        auto made = gradients(number, *comm, stream, deadline);
        if (auto const ended = stream.synchronize(deadline); made && !ended) return ended.error();
        if (!made) return made.error();
        auto const views = parameters_of(made->values);
        TrainedStep out{.loss = made->loss, .learning_rate = options_.schedule.at(number)};
        auto const norm = global_norm(*comm, views, stream, deadline);
        if (!norm) return norm.error();
        out.norm = *norm;
        // Without a bound one that clips nothing: a norm that is no number ends the step all the same.
        auto const factor = clip_coefficient(out.norm, options_.clip.value_or(most_norm));
        if (!factor) return factor.error();
        OptimizerStep const update{
            .number = number + 1, .learning_rate = out.learning_rate, .gradient_factor = *factor};
        auto const stepped = optimizer_.step(update, views, stream);
        auto const ended = stream.synchronize(deadline);
        if (!stepped) return stepped.error();
        if (!ended) return ended.error();
        return out;
    }

private:
    static constexpr std::string_view subject = "training";
    static constexpr double most_norm = 1e29;

    struct Gradients {
        double loss = 0.0;
        TensorView<float, 1, Host> values;
    };

    OneRankTrainer(TrainingProgram const& program, TrainingWeights& weights, Batches& batches,
                   TrainOptions const& options, TrainingPass pass, GradientTree tree, ShardedOptimizer<Rule> optimizer)
        : program_(&program),
          weights_(&weights),
          batches_(&batches),
          options_(options),
          pass_(std::move(pass)),
          tree_(std::move(tree)),
          optimizer_(std::move(optimizer)) {}

    [[nodiscard]] static TrainingLimits limits_of(BatchOptions const& batch, TrainOptions const& options) {
        return {.sequences = std::min(options.micro_batch, batch.batch), .context = batch.context};
    }

    /// The loss of a batch and the gradients of it: of the mean over its tokens that count.
    template <Communicator C>
    [[nodiscard]] Result<Gradients> gradients(std::int64_t number, C& comm, HostStream& stream, Deadline deadline) {
        // A step that was refused may have left some leaves.
        tree_.clear();
        auto const& batch = batches_->options();
        auto const count = batch.batch * batch.context;
        tokens_.resize(static_cast<std::size_t>(count));
        targets_.resize(tokens_.size());
        losses_.resize(tokens_.size());
        using Ids = TensorView<std::int32_t, 2, Host>;
        auto const read = batches_->read(number * batch.batch, {0, batch.batch},
                                         Ids{tokens_.data(), {batch.batch, batch.context}},
                                         Ids{targets_.data(), {batch.batch, batch.context}});
        if (!read) return read.error();
        auto const counted = std::count_if(targets_.begin(), targets_.end(), [](auto target) { return target >= 0; });
        if (counted == 0)
            return Error{ErrorCode::invalid_argument}.in(subject).at("batch").because("has no token whose loss counts");
        auto const scale = static_cast<float>(1.0 / static_cast<double>(counted));
        auto const most = pass_.limits().sequences;
        for (std::int64_t first = 0; first < batch.batch; first += most) {
            auto const some = std::min(most, batch.batch - first);
            TensorView<std::int32_t const, 2, Host> const tokens(tokens_.data() + first * batch.context,
                                                                 {some, batch.context});
            if (auto const done = pass_.forward(*weights_, tokens, stream); !done) return done.error();
            for (std::int64_t i = 0; i < some; ++i) {
                auto const at = (first + i) * batch.context;
                auto const leaf = tree_.leaf();
                if (!leaf) return leaf.error();
                auto const done =
                    pass_.backward(*weights_, i, {targets_.data() + at, {batch.context}}, scale,
                                   {losses_.data() + at, {batch.context}}, *leaf, stream);
                if (!done) return done.error();
                if (auto const added = tree_.add(stream); !added) return added.error();
            }
        }
        auto const sum = tree_.sum(comm, stream);
        if (!sum) return sum.error();
        if (auto const tied = add_tied_gradients(program_->layout(), *sum, stream); !tied) return tied.error();
        if (auto const ended = stream.synchronize(deadline); !ended) return ended.error();
        TokenMean mean;
        if (auto const added = mean.add({losses_.data(), losses_.size()}, {targets_.data(), targets_.size()}); !added)
            return added.error();
        if (!mean.is_finite())
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .at("loss")
                .because("is no number")
                .got(number)
                .fix("use a lower learning rate, or look at the data of this step");
        return Gradients{mean.mean(), *sum};
    }
    [[nodiscard]] List<TensorView<float const, 1, Host>> parameters_of(TensorView<float, 1, Host> all) const {
        List<TensorView<float const, 1, Host>> out;
        for (auto const& parameter : program_->layout().parameters())
            out.push_back(all.part(parameter.begin, parameter.elements));
        return out;
    }

    TrainingProgram const* program_;
    TrainingWeights* weights_;
    Batches* batches_;
    TrainOptions options_;
    TrainingPass pass_;
    GradientTree tree_;
    ShardedOptimizer<Rule> optimizer_;
    std::vector<std::int32_t> tokens_;
    std::vector<std::int32_t> targets_;
    std::vector<float> losses_;
};

/// Trains a model with one call and returns what each step gave.
///
/// Errors  as OneRankTrainer
template <OptimizerRule Rule>
[[nodiscard]] Result<std::vector<TrainedStep>> train_one_rank(HostContext& context, TrainingProgram const& program,
                                                              TrainingWeights& weights, Rule const& rule,
                                                              Batches& batches, TrainOptions const& options,
                                                              RopeDivisors const& divisors = {}) {
    auto trainer = OneRankTrainer<Rule>::create(context, program, weights, rule, batches, options, divisors);
    if (!trainer) return trainer.error();
    auto stream = context.make_stream();
    return trainer->run(stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
