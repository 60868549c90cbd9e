// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/pass_traffic.hpp>
#include <shardwise/executor/training/training_memory.hpp>
#include <shardwise/executor/training/training_weights.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/detail/sequences.hpp>
#include <shardwise/train/detail/training_groups.hpp>
#include <shardwise/train/sharded_optimizer.hpp>
#include <shardwise/train/train_options.hpp>
#include <shardwise/train/training_gradients.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Errors  unsupported for an optimizer whose state has blocks that tensor-parallel ranks would cut
template <OptimizerRule Rule>
[[nodiscard]] Result<> check_cut(TrainOptions const& options) {
    if (options.tp == 1 || (Rule::share_multiple == 1 && !Rule::needs_whole_matrix)) return {};
    return Error{ErrorCode::unsupported}
        .in(Rule::name)
        .at("tp")
        .because("has blocks of elements, which tensor-parallel ranks would cut")
        .fix("use adamw or sgd, or data-parallel ranks");
}

/// What a trainer allocates.
struct TrainerParts {
    /// Kept and working values of passes, with what operations need beside them.
    Bytes activations{};
    /// Sums of gradients over leaves, the leaf at work, and what ranks exchange.
    Bytes gradients{};
    Bytes optimizer{};
    /// Tokens, targets and losses of the rank's sequences.
    Bytes batch{};

    [[nodiscard]] Bytes total() const { return activations + gradients + optimizer + batch; }
};

/// What a rank of a training allocates and takes from others, before there is one. `place` is among all ranks.
template <OptimizerRule Rule>
struct TrainerSizes {
    TrainingProgram const& program;
    Rule const& rule;
    BatchOptions const& batch;
    TrainOptions const& options;
    TensorPlace place;

    /// Among those that have the same part of the model.
    [[nodiscard]] TensorPlace data() const { return TrainingGroups<HostCommunicator>::data_place(place, options.tp); }
    [[nodiscard]] TensorPlace optimizer() const { return options.zero == ZeroStage::none ? TensorPlace{} : data(); }
    [[nodiscard]] std::int64_t leaves() const { return split_units(batch.batch, data().ranks, data().rank).size(); }
    [[nodiscard]] TrainingLimits limits() const {
        return {.sequences = std::min(options.micro_batch, leaves()),
                .context = batch.context,
                .recompute = options.recompute,
                .precision = options.precision};
    }
    /// The model's parameters by their sizes alone.
    [[nodiscard]] List<OptimizedParameter> parameters() const {
        List<OptimizedParameter> out;
        for (auto const& parameter : program.layout().parameters())
            out.push_back({{}, {nullptr, {parameter.elements}}});
        return out;
    }

    [[nodiscard]] Result<TrainerParts> parts(RopeDivisors const& divisors) const {
        auto const plan = plan_training_memory(program, limits(), divisors);
        if (!plan) return plan.error();
        return TrainerParts{.activations = plan->bytes(),
                            .gradients = TrainingGradients::bytes(program.layout(), batch.batch, data(), options.zero),
                            .optimizer = ShardedOptimizer<Rule>::state_bytes(rule, parameters(), optimizer()),
                            .batch = Sequences::bytes(leaves(), batch.context)};
    }
    [[nodiscard]] Result<Bytes> bytes(RopeDivisors const& divisors) const {
        auto const all = parts(divisors);
        if (!all) return all.error();
        return all->total();
    }
    [[nodiscard]] CollectiveTraffic traffic() const {
        CollectiveTraffic out;
        // Counts of tokens, the largest gradient, the sum of squares, losses.
        for (std::int64_t const bytes : {16, 4, 16, 32}) out += {1, place.ranks > 1 ? 1 : 0, (place.ranks - 1) * bytes};
        out += TrainingGradients::traffic(program.layout(), batch.batch, data(), options.zero);
        out += ShardedOptimizer<Rule>::gather_traffic(parameters(), optimizer());
        if (options.tp == 1) return out;
        auto const pass = pass_traffic(program, batch.context, options.recompute);
        for (std::int64_t i = 0; i < leaves(); ++i) {
            out += pass.forward;
            out += pass.backward;
        }
        out += TrainingWeights::exchange_traffic(program.layout());
        return out;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
