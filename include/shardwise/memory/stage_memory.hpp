// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/estimate.hpp>
#include <shardwise/memory/megatron_report.hpp>
#include <shardwise/memory/overhead.hpp>
#include <shardwise/memory/stage_needs.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The memory of one rank of a pipeline stage.
struct StageMemory {
    MemoryTerms terms{};
    /// Of the overhead, the buffers for talking to other ranks.
    Bytes communication{};
    /// The activations of both phases; in training both are the step's.
    ActivationPeaks phases{};
    /// Training states that live in host memory.
    Bytes host{};
};

/// Says what a stage's needs come to: the one rule by which estimates and plans price a rank.
class StageRule {
public:
    StageRule() = default;
    /// `request.parallel` has the degrees, `request.batch` a replica's sequences; `model` outlives this.
    /// `largest_module`: of the rank (shardwise::largest_module), which DeepSpeed's convention asks for.
    constexpr StageRule(Model const& model, EstimateRequest const& request, std::int64_t largest_module)
        : model_(&model), request_(request), largest_module_(largest_module) {
        auto const micro_batch = working_request(model, request);
        sequences_ = micro_batch.batch;
        auto const step = largest_step(micro_batch, model.config);
        message_ = Bytes{step.tokens() * model.config.hidden_size * bits(step.dtype) / 8};
    }

    /// The memory of stage `stage`, with `dp` replicas and stage `zero` of ZeRO in training.
    [[nodiscard]] constexpr StageMemory memory(StageNeeds const& needs, std::int64_t stage, std::int64_t dp,
                                               std::int32_t zero) const {
        StageMemory memory;
        bool is_own = true;
        memory.communication = needs.communication;
        if (!request_.training) {
            memory.terms.weights = needs.held.weights;
            memory.terms.kv_cache = needs.kv_cache;
            memory.phases = needs.working;
        } else {
            auto plan = *request_.training;
            plan.zero = zero;
            is_own = counts_everything(plan.convention);
            auto share = training_share(needs.held, request_, model_->config, dp);
            share.largest_part = needs.largest_part;
            share.largest_module = largest_module_;
            auto const states = model_states(plan, share);
            memory.terms.weights = states.weights;
            memory.terms.gradients = states.gradients;
            memory.terms.optimizer = states.optimizer;
            memory.communication += states.communication;
            memory.host = states.host;
            auto const kept = kept_activations(plan, needs, stage);
            memory.phases = {kept, kept};
        }
        memory.terms.activations = memory.phases.peak();
        if (is_own) {
            memory.communication += message(stage);
            memory.terms.overhead = memory.communication + runtime_overhead(request_.device);
        }
        return memory;
    }

private:
    /// One forward, one backward: stage r of p has p - r micro-batches in flight.
    [[nodiscard]] constexpr std::int64_t in_flight(std::int64_t stage) const {
        auto const from_here_on = request_.parallel.pp - stage;
        auto const all = request_.micro_batches;
        return all > 0 && all < from_here_on ? all : from_here_on;
    }

    [[nodiscard]] constexpr Bytes kept_activations(TrainingPlan const& plan, StageNeeds const& needs,
                                                   std::int64_t stage) const {
        auto const& config = model_->config;
        auto const& parallel = request_.parallel;
        auto const micro_batches = in_flight(stage);
        switch (plan.convention) {
            case MemoryConvention::shardwise:
            case MemoryConvention::transformers:
                return micro_batches * needs.saved + needs.working.peak();
            case MemoryConvention::megatron:
                return MegatronReport(*model_).activations(context_of(request_, config), sequences_, needs.layers,
                                                           stage, micro_batches, parallel, plan.recompute);
            case MemoryConvention::megatron_paper:
                return needs.layers * micro_batches *
                       megatron_activations(context_of(request_, config), sequences_, config.hidden_size, config.heads,
                                            parallel.tp, parallel.sequence_parallel, plan.recompute);
            case MemoryConvention::zero:
            case MemoryConvention::deepspeed:
                return Bytes{0};
        }
        return Bytes{0};
    }

    /// Where the next micro-batch's hidden state arrives while this one is computed.
    [[nodiscard]] constexpr Bytes message(std::int64_t stage) const {
        return request_.parallel.pp == 1 || stage == 0 ? Bytes{0} : message_;
    }

    Model const* model_ = nullptr;
    EstimateRequest request_{};
    std::int64_t largest_module_ = 0;
    /// Of a micro-batch.
    std::int64_t sequences_ = 0;
    Bytes message_{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
