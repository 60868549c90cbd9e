// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/threads.hpp>
#include <shardwise/train/trainer.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

template <class W>
concept BeginsStored = std::invocable<W const&, HostContext&, TrainingPlace const&, WeightStorage const&>;

/// Whole float32 where `weights` takes no storage; a trainer refuses them where it wants another.
template <class Weights>
[[nodiscard]] Result<TrainingWeights> begin_weights(Weights const& weights, HostContext& context,
                                                    TrainingPlace const& place, WeightStorage const& storage) {
    if constexpr (BeginsStored<Weights>) {
        return weights(context, place, storage);
    } else {
        return weights(context, place);
    }
}

}  // namespace detail

/// Gives a rank the weights that it begins with.
template <class W>
concept BeginsWeights = detail::BeginsStored<W> || std::invocable<W const&, HostContext&, TrainingPlace const&>;

/// Trains one rank of a group that joined already: of processes, of MPI, of several machines, or a thread. All ranks call it, each with
/// its own context, and the program and weights of its place among the ranks that share each layer. `body(trainer, stream)` is called with
/// the same outcome on all.
///
/// Memory  Trainer::bytes beside the weights
/// Errors  as Trainer and `body`: on all ranks the first of any
template <OptimizerRule Rule, class Body>
[[nodiscard]] Result<> train_in_group(HostCommunicator& comm, HostContext& context, TrainingProgram const& program,
                                      TrainingWeights& weights, Rule const& rule, Batches const& batches,
                                      TrainOptions const& options, Body const& body,
                                      RopeDivisors const& divisors = {}) {
    auto trainer = Trainer<Rule>::create(context, comm, program, weights, rule, batches, options, divisors);
    if (!trainer) return trainer.error();
    auto stream = context.make_stream();
    return body(*trainer, stream);
}

/// Trains a model over ranks that are threads of this process, each with a context, a stream and weights of its own: rank 0 those that
/// are given, the others contexts with as many threads and copies of the weights. `body(trainer, stream)` is called on every rank at
/// once, with the same outcome on all: it runs the trainer, or takes its steps one by one, and may restore it first.
///
/// Memory  for each rank the weights and Trainer::bytes
/// Errors  as Trainer and `body`: the first of any rank
template <OptimizerRule Rule, class Body>
[[nodiscard]] Result<> train_ranks(HostContext& context, TrainingProgram const& program, TrainingWeights& weights,
                                   Rule const& rule, Batches const& batches, TrainOptions const& options,
                                   std::int32_t ranks, Body const& body, RopeDivisors const& divisors = {}) {
    auto const train = [&](HostCommunicator& comm, HostContext& own, TrainingWeights& own_weights) {
        return train_in_group(comm, own, program, own_weights, rule, batches, options, body, divisors);
    };
    auto const rank = [&](Threads& thread) -> Result<> {
        HostCommunicator comm(std::move(thread));
        if (comm.rank() == 0) {
            // The others copy the weights before they change.
            if (auto const copied = barrier(comm); !copied) return copied;
            return train(comm, context, weights);
        }
        HostOptions same{.threads = context.pool().size()};
        if (context.isa()) same.isa = *context.isa();
        HostContext own(same);
        auto copied = TrainingWeights::copy(own, weights);
        if (!copied) return end_group(comm, copied.error());
        if (auto const all = barrier(comm); !all) return all;
        return train(comm, own, *copied);
    };
    return run_threads(ranks, rank, {.timeout = options.timeout});
}

/// Trains a model over ranks that are threads of this process, each with a context, a stream, a program and weights of its own: also
/// tensor-parallel ones (TrainOptions::tp) and stages (pp). `weights(context, place)` gives a rank the weights that it begins with, those of
/// its place among the ranks that share the model, or `weights(context, place, storage)` held as its stage of ZeRO and the optimizer want
/// them; rank 0 takes `context`, the others contexts with as many threads.
///
/// Memory  for each rank the weights and Trainer::bytes
/// Errors  as TrainingProgram, Trainer, `weights` and `body`: the first of any rank
template <OptimizerRule Rule, class Weights, class Body>
requires BeginsWeights<Weights>
[[nodiscard]] Result<> train_ranks(HostContext& context, Model const& model, Weights const& weights, Rule const& rule,
                                   Batches const& batches, TrainOptions const& options, std::int32_t ranks,
                                   Body const& body, RopeDivisors const& divisors = {}) {
    if (auto const checked = options.check(); !checked) return checked;
    HostOptions same{.threads = context.pool().size()};
    if (context.isa()) same.isa = *context.isa();
    auto const rank = [&](Threads& thread) -> Result<> {
        HostCommunicator comm(std::move(thread));
        std::optional<HostContext> other;
        if (comm.rank() > 0) other.emplace(same);
        auto& own = other ? *other : context;
        auto const place = options.model_place(comm.rank());
        auto const replica = options.tp * options.pp;
        bool const is_shared = options.zero == ZeroStage::weights;
        auto const shares = is_shared ? TensorPlace{ranks / replica, comm.rank() / replica} : TensorPlace{};
        auto begun =
            detail::begin_weights(weights, own, place, {shares, detail::weights_dtype<Rule>, options.weights_folder()});
        if (!begun) return end_group(comm, begun.error());
        auto const program = TrainingProgram::create(model, place, begun->layout().adapter().options());
        if (!program) return end_group(comm, program.error());
        return train_in_group(comm, own, *program, *begun, rule, batches, options, body, divisors);
    };
    return run_threads(ranks, rank, {.timeout = options.timeout});
}

/// Trains a model over ranks that are threads of this process and returns what each step gave.
///
/// Errors  as Trainer
template <OptimizerRule Rule>
[[nodiscard]] Result<std::vector<TrainedStep>> train_ranks(HostContext& context, TrainingProgram const& program,
                                                           TrainingWeights& weights, Rule const& rule,
                                                           Batches const& batches, TrainOptions const& options,
                                                           std::int32_t ranks = 1, RopeDivisors const& divisors = {}) {
    std::vector<TrainedStep> out;
    auto const body = [&](Trainer<Rule>& trainer, HostStream& stream) -> Result<> {
        auto steps = trainer.run(stream);
        if (!steps) return steps.error();
        if (trainer.comm().rank() == 0) out = std::move(*steps);
        return {};
    };
    auto const done = train_ranks(context, program, weights, rule, batches, options, ranks, body, divisors);
    if (!done) return done.error();
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
