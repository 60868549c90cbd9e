// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/gathered_layers.hpp>
#include <shardwise/executor/training/pass_traffic.hpp>
#include <shardwise/executor/training/training_memory.hpp>
#include <shardwise/executor/training/training_weights.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/detail/leaf_passes.hpp>
#include <shardwise/train/detail/sequences.hpp>
#include <shardwise/train/detail/stage_passes.hpp>
#include <shardwise/train/detail/stage_ties.hpp>
#include <shardwise/train/detail/training_groups.hpp>
#include <shardwise/train/sharded_optimizer.hpp>
#include <shardwise/train/train_options.hpp>
#include <shardwise/train/training_gradients.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a trainer allocates.
struct TrainerParts {
    /// Kept and working values of passes, with what operations need beside them.
    Bytes activations{};
    /// Sums of gradients over leaves, the leaf at work, and what ranks exchange.
    Bytes gradients{};
    Bytes optimizer{};
    /// Tokens, targets and losses of the rank's sequences.
    Bytes batch{};
    /// Whole layers at work, of weights that data-parallel ranks share.
    Bytes gathered{};
    /// What stages of a pipeline pass on, and keep of leaves in flight.
    Bytes stages{};

    [[nodiscard]] Bytes total() const { return activations + gradients + optimizer + batch + gathered + stages; }
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
    [[nodiscard]] TensorPlace data() const { return ReplicaDegrees{options.tp, options.pp}.data_place(place); }
    [[nodiscard]] TensorPlace optimizer() const { return options.shared() == ZeroStage::none ? TensorPlace{} : data(); }
    [[nodiscard]] WeightStorage weights() const {
        return {options.zero == ZeroStage::weights ? data() : TensorPlace{}, weights_dtype<Rule>,
                options.weights_folder()};
    }
    /// How gradients are added up.
    [[nodiscard]] GradientSums sums() const {
        return {batch.batch,
                data(),
                options.shared(),
                options.is_fast,
                BucketPlan::create(program, options.buckets),
                options.weights_folder()};
    }
    [[nodiscard]] std::int64_t leaves() const { return split_units(batch.batch, data().ranks, data().rank).size(); }
    /// Those that a stage's table is made for: those of the rank with most, where all data-parallel ranks exchange what belongs to each leaf
    /// of each chunk in one order.
    [[nodiscard]] std::int64_t joined_leaves() const {
        bool const joins =
            options.zero == ZeroStage::weights || (sums().is_sharded() && pipeline_chunks(options.pipeline) > 1);
        return joins ? split_units(batch.batch, data().ranks, 0).size() : leaves();
    }
    /// Elements that a rank has of the sum of a parameter's gradient.
    [[nodiscard]] std::int64_t held(std::size_t parameter) const {
        auto const elements = program.layout().parameters()[parameter].elements;
        return options.shared() == ZeroStage::none ? elements
                                                   : optimizer_share(elements, data().ranks, data().rank).size();
    }
    /// How leaves go through the stages, where there are several.
    ///
    /// Errors  as StagePlan
    [[nodiscard]] Result<StagePlan> stages() const {
        return StagePlan::create(program, options, leaves(), joined_leaves(), batch.context);
    }
    /// Errors  as `stages`
    [[nodiscard]] Result<TrainingLimits> limits() const {
        std::int64_t in_flight = 1;
        std::int64_t waiting = 0;
        if (options.pp > 1) {
            auto const plan = stages();
            if (!plan) return plan.error();
            in_flight = plan->in_flight();
            waiting = plan->waiting();
        }
        return TrainingLimits{.sequences = std::min(options.micro_batch, leaves()),
                              .context = batch.context,
                              .in_flight = in_flight,
                              .waiting = waiting,
                              .recompute = options.recompute,
                              .precision = options.precision};
    }
    /// The model's parameters by their sizes alone.
    [[nodiscard]] List<OptimizedParameter> parameters() const {
        List<OptimizedParameter> out;
        for (auto const& parameter : program.layout().parameters()) {
            OptimizedParameter one{{}, {nullptr, {weights().is_half() ? 0 : parameter.elements}}};
            if (weights().is_half()) one.halves = {nullptr, {parameter.elements}};
            one.parted = parameter.whole_elements;
            out.push_back(one);
        }
        return out;
    }

    /// Errors  as `stages` and plan_training_memory
    [[nodiscard]] Result<TrainerParts> parts(RopeDivisors const& divisors) const {
        auto const limited = limits();
        if (!limited) return limited.error();
        auto const plan = plan_training_memory(program, *limited, divisors);
        if (!plan) return plan.error();
        TrainerParts out{.activations = plan->bytes(),
                         .gradients = TrainingGradients::bytes(program.layout(), sums()),
                         .optimizer = ShardedOptimizer<Rule>::state_bytes(rule, parameters(), optimizer(),
                                                                          !options.offload_folder.empty()),
                         .batch = Sequences::bytes(leaves(), batch.context),
                         .gathered = GatheredLayers::bytes(program, weights())};
        if (options.pp == 1) return out;
        auto const of_stages = stages();
        if (!of_stages) return of_stages.error();
        auto const moved = of_stages->bytes();
        if (!moved) return moved.error();
        out.stages = *moved + StageTies::bytes(program.layout(), [this](std::size_t i) { return held(i); });
        return out;
    }
    [[nodiscard]] Result<Bytes> bytes(RopeDivisors const& divisors) const {
        auto const all = parts(divisors);
        if (!all) return all.error();
        return all->total();
    }
    /// The first of the ranks that share weights has most leaves.
    [[nodiscard]] LeafRounds rounds() const {
        auto const most = split_units(batch.batch, data().ranks, 0).size();
        return {leaves(), most, std::min(options.micro_batch, most)};
    }
    /// How often a step gathers each layer, and the head after them.
    [[nodiscard]] std::vector<std::int64_t> gathers(LayerParts const& parts) const {
        if (options.pp > 1) {
            auto const plan = stages();
            return plan ? plan->gathers(parts) : std::vector<std::int64_t>(parts.size(), 0);
        }
        std::vector<std::int64_t> out(parts.size(), rounds().all + rounds().passes());
        out.back() = rounds().all;
        return out;
    }
    [[nodiscard]] CollectiveTraffic traffic() const {
        CollectiveTraffic out;
        auto const add = [&](std::int64_t bytes) { out += {1, place.ranks > 1 ? 1 : 0, (place.ranks - 1) * bytes}; };
        // Counts of tokens, losses; the sum of squares, and the largest gradient before it.
        for (std::int64_t const bytes : {16, 32}) add(bytes);
        add(options.is_fast ? 8 : 16);
        if (!options.is_fast) add(4);
        out += data_traffic();
        out += stage_traffic();
        out += tensor_traffic();
        return out;
    }
    /// Of it, among those that have the same part of the model.
    [[nodiscard]] CollectiveTraffic data_traffic() const {
        auto out = TrainingGradients::traffic(program.layout(), sums());
        if (options.has_one_copy) {
            // Ranks wait for each other's changes.
            out += {1, 0, 0};
            return out;
        }
        if (weights().shares.ranks == 1) {
            out += ShardedOptimizer<Rule>::gather_traffic(parameters(), optimizer());
            return out;
        }
        LayerParts const parts(program);
        auto const times = gathers(parts);
        for (std::size_t i = 0; i < parts.size(); ++i) {
            auto const one = parts.traffic(i, weights());
            for (std::int64_t k = 0; k < times[i]; ++k) out += one;
        }
        return out;
    }
    /// Among the stages of a replica.
    [[nodiscard]] CollectiveTraffic stage_traffic() const {
        CollectiveTraffic out;
        if (options.pp == 1) return out;
        if (auto const of_stages = stages()) out += of_stages->traffic();
        out += StageTies::traffic(program.layout(), [this](std::size_t i) { return held(i); });
        return out;
    }
    /// Among those that share each layer; with what they gather of weights that data-parallel ranks share before they exchange it.
    [[nodiscard]] CollectiveTraffic tensor_traffic() const {
        CollectiveTraffic out;
        if (options.tp == 1) return out;
        auto const pass = pass_traffic(program, batch.context, options.recompute, options.is_split());
        for (std::int64_t i = 0; i < leaves(); ++i) {
            out += pass.forward;
            out += pass.backward;
        }
        out += weights().shares.ranks > 1 ? GatheredLayers::exchange_traffic(program.layout(), weights())
                                          : exchange_traffic(program.layout(), weights().width());
        return out;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
