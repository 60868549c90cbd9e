// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/communication.hpp>
#include <shardwise/memory/estimate.hpp>
#include <shardwise/memory/kv_cache.hpp>
#include <shardwise/memory/overhead.hpp>
#include <shardwise/memory/saved_activations.hpp>
#include <shardwise/memory/training.hpp>
#include <shardwise/plan/layer_slots.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What slots take on one rank, before it is known which stage they are on: sums, and maxima of what one at a time
/// needs.
struct SlotNeeds {
    Bytes weights{};
    Bytes buffers{};
    /// Of the weights, those of an adapter's base.
    Bytes frozen{};
    Bytes states{};
    std::int64_t parameters = 0;
    Bytes kv_cache{};
    Bytes saved{};
    Bytes largest_part{};
    Bytes working{};
    Bytes communication{};
    std::int64_t layers = 0;

    /// Puts `count` slots like `other` beside these.
    void add(SlotNeeds const& other, std::int64_t count = 1) {
        weights += count * other.weights;
        buffers += count * other.buffers;
        frozen += count * other.frozen;
        states += count * other.states;
        parameters += count * other.parameters;
        kv_cache += count * other.kv_cache;
        saved += count * other.saved;
        layers += count * other.layers;
        if (largest_part < other.largest_part) largest_part = other.largest_part;
        if (working < other.working) working = other.working;
        if (communication < other.communication) communication = other.communication;
    }
    /// Takes away the second name of a tied tensor.
    void drop(SlotNeeds const& tie) {
        weights -= tie.weights;
        frozen -= tie.frozen;
        states -= tie.states;
        parameters -= tie.parameters;
    }
};

/// What every kind of slot holds of the model on one rank of a tensor- and expert-parallel group: the estimator's
/// numbers, kept by slot so that any cut into stages is a sum.
struct RankWeights {
    List<SlotNeeds> kinds;
    List<SlotNeeds> ties;
    /// The elements of the module with the most parameters of its own.
    std::int64_t largest_module = 0;
};

namespace detail {

/// Weighs the parts of a model on one rank.
class RankWeigher {
public:
    RankWeigher(Model const& model, EstimateRequest const& request, RankPlace const& place)
        : model_(model), request_(request), place_(place) {}

    RankWeights weigh(ModelParts const& parts, LayerSlots const& slots) const {
        RankWeights weights;
        List<SlotNeeds> held(parts.parts.size());
        for (auto const& slot : slots.kinds) {
            SlotNeeds needs;
            for (auto const part : slot.parts) {
                if (held[part].largest_part.count() == 0) held[part] = part_needs(parts.parts[part]);
                needs.add(held[part]);
            }
            needs.layers = parts.layers > 0 ? 1 : 0;
            weights.kinds.push_back(needs);
        }
        for (auto const& tie : parts.ties) weights.ties.push_back(tie_needs(tie));
        for (auto const& module : model_.tree.modules()) {
            std::int64_t own = 0;
            for (std::uint32_t i = 0; i < module.tensor_count; ++i) own += elements(model_.tree.tensor(module, i));
            if (weights.largest_module < own) weights.largest_module = own;
        }
        return weights;
    }

private:
    SlotNeeds part_needs(ModelPart const& part) const {
        SlotNeeds needs;
        auto const sum = [&](auto const& measure) {
            return sum_part(model_, part, request_.parallel, place_, measure);
        };
        needs.weights = Bytes{sum([&](Tensor const& tensor, LayerPosition const& at) {
            return shard_bytes(tensor, at, request_, place_).count();
        })};
        needs.largest_part = needs.weights;
        if (!request_.training) return needs;
        needs.parameters =
            sum([&](Tensor const& tensor, LayerPosition const& at) { return elements(tensor, at.grain); });
        needs.buffers = Bytes{sum([&](Tensor const& tensor, LayerPosition const& at) {
            return tensor.is_parameter() ? std::int64_t{0} : shard_bytes(tensor, at, request_, place_).count();
        })};
        needs.states = Bytes{sum([&](Tensor const& tensor, LayerPosition const&) { return states(tensor); })};
        if (trains_adapter(request_))
            needs.frozen =
                Bytes{sum([&](Tensor const& tensor, LayerPosition const& at) { return frozen(tensor, at); })};
        return needs;
    }

    SlotNeeds tie_needs(TiedPart const& tie) const {
        SlotNeeds needs;
        needs.weights = shard_bytes(tie.tensor, tie.position, request_, place_);
        needs.parameters = elements(tie.tensor);
        if (request_.training) needs.states = Bytes{states(tie.tensor)};
        needs.frozen = Bytes{frozen(tie.tensor, tie.position)};
        return needs;
    }

    std::int64_t elements(Tensor const& tensor, UnitGrain grain = {}) const {
        return is_trained(tensor, request_) ? shard_of(tensor, request_.parallel, place_, grain).elements() : 0;
    }
    std::int64_t states(Tensor const& tensor) const {
        return is_trained(tensor, request_) ? optimizer_state_bytes(request_.training->optimizer, elements(tensor)) : 0;
    }
    std::int64_t frozen(Tensor const& tensor, LayerPosition const& at) const {
        return is_frozen(tensor, request_) ? shard_bytes(tensor, at, request_, place_).count() : 0;
    }

    Model const& model_;
    EstimateRequest const& request_;
    RankPlace place_;
};

}  // namespace detail

/// What every kind of slot holds of the model on the rank `place` of the request's groups.
[[nodiscard]] inline RankWeights weigh_rank(Model const& model, EstimateRequest const& request, ModelParts const& parts,
                                            LayerSlots const& slots, RankPlace const& place) {
    return detail::RankWeigher(model, request, place).weigh(parts, slots);
}

namespace detail {

/// What training takes beside the activations of a block that works.
inline void add_training_needs(SlotNeeds& needs, BlockBody const& body, OpContext const& context,
                               TrainingPlan const& plan) {
    needs.saved = saved_activations(body, context, plan);
    needs.working += remade_activations(body, context, plan);
    needs.communication = communication_buffer(body, context);
}

}  // namespace detail

/// What every body of the program (ModelParts::bodies) takes on a rank while it runs, but for the cache; `micro_batch.batch` goes
/// through it at a time.
[[nodiscard]] inline List<SlotNeeds> body_needs(Model const& model, ModelParts const& parts,
                                                EstimateRequest const& request, RankPlace const& place) {
    auto const micro_batch = prefill_request(model, request);
    List<SlotNeeds> all;
    auto const rank = op_rank(micro_batch.parallel, place);
    for (auto const& grained : parts.bodies) {
        auto const& body = model.program.bodies()[static_cast<std::size_t>(grained.body)];
        SlotNeeds needs;
        if (!micro_batch.training) {
            needs.working = activation_peak(body, micro_batch, model.config, place, grained.span());
            auto const prefill = largest_step_of(Phase::prefill, micro_batch, model.config);
            needs.communication = communication_buffer(body, op_context(body, prefill, rank, grained.span()));
        } else if (counts_everything(micro_batch.training->convention)) {
            auto const context = op_context(body, training_step(micro_batch, model.config), rank, grained.span());
            needs.working = plan_activations(body, context).layout.peak;
            detail::add_training_needs(needs, body, context, *micro_batch.training);
        }
        all.push_back(needs);
    }
    return all;
}

/// The same on the first rank of a group, without a layout: no more than what is alive at once in the longer pass.
[[nodiscard]] inline List<SlotNeeds> min_body_needs(Model const& model, ModelParts const& parts,
                                                    EstimateRequest const& request) {
    auto const micro_batch = prefill_request(model, request);
    List<SlotNeeds> all;
    auto const rank = op_rank(micro_batch.parallel, {});
    for (auto const& grained : parts.bodies) {
        auto const& body = model.program.bodies()[static_cast<std::size_t>(grained.body)];
        SlotNeeds needs;
        bool const is_own = !micro_batch.training || counts_everything(micro_batch.training->convention);
        if (is_own) {
            auto const step = micro_batch.training ? training_step(micro_batch, model.config)
                                                   : largest_step_of(Phase::prefill, micro_batch, model.config);
            auto const context = op_context(body, step, rank, grained.span());
            needs.working = min_activations(body, context);
            if (micro_batch.training)
                detail::add_training_needs(needs, body, context, *micro_batch.training);
            else
                needs.communication = communication_buffer(body, context);
        }
        all.push_back(needs);
    }
    return all;
}

/// The cache of a layer that runs a body of ModelParts::bodies.
[[nodiscard]] inline Bytes body_cache(Model const& model, ModelParts const& parts, std::size_t body,
                                      EstimateRequest const& request, std::int64_t tp_rank) {
    auto const& grained = parts.bodies[body];
    return kv_cache_bytes(model.program.bodies()[static_cast<std::size_t>(grained.body)], request, model.config,
                          tp_rank, grained.span());
}

/// What every kind of slot takes on one rank while it works.
class RankMemory {
public:
    /// `request.parallel` has the degrees, `request.batch` a replica's sequences, `request.micro_batches` their micro-batches.
    RankMemory() = default;
    RankMemory(Model const& model, EstimateRequest const& request, ModelParts const& parts, LayerSlots const& slots,
               RankWeights const& held, List<SlotNeeds> const& bodies, RankPlace const& place)
        : model_(&model),
          request_(request),
          micro_batch_(micro_batch_of(prefill_request(model, request))),
          kinds_(held.kinds),
          ties_(held.ties),
          largest_module_(held.largest_module) {
        auto const step = largest_step_of(Phase::prefill, micro_batch_, model.config);
        message_ = Bytes{step.tokens() * model.config.hidden_size * bits(step.dtype) / 8};
        for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
            for (auto const body : slots.kinds[kind].bodies) {
                kinds_[kind].add(bodies[body]);
                if (!request.training) kinds_[kind].kv_cache += body_cache(model, parts, body, request, place.tp);
            }
        }
    }

    [[nodiscard]] List<SlotNeeds> const& kinds() const { return kinds_; }
    [[nodiscard]] SlotNeeds const& tie(std::size_t tie) const { return ties_[tie]; }

    /// The slots from `begin` to `end`, ties within them once.
    [[nodiscard]] SlotNeeds sum(LayerSlots const& slots, std::int64_t begin, std::int64_t end) const {
        SlotNeeds needs;
        for (auto slot = begin; slot < end; ++slot) needs.add(kinds_[slots.kind_of[static_cast<std::size_t>(slot)]]);
        for (auto const& tie : slots.ties) {
            auto const is_here = [&](std::int64_t slot) { return slot >= begin && slot < end; };
            if (is_here(tie.first) && is_here(tie.other)) needs.drop(ties_[tie.tie]);
        }
        return needs;
    }

    /// The memory of stage `stage` of the request's pipeline that holds `needs`.
    [[nodiscard]] MemoryTerms stage_memory(SlotNeeds const& needs, std::int64_t stage, std::int64_t dp,
                                           std::int32_t zero) const {
        MemoryTerms terms;
        auto communication = needs.communication;
        bool is_own = true;
        if (!request_.training) {
            terms.weights = needs.weights;
            terms.kv_cache = needs.kv_cache;
            terms.activations = needs.working;
            communication += message(stage);
        } else {
            auto plan = *request_.training;
            plan.zero = zero;
            is_own = counts_everything(plan.convention);
            auto const states = model_states(plan, share_of_stage(needs, dp));
            terms.weights = states.weights;
            terms.gradients = states.gradients;
            terms.optimizer = states.optimizer;
            terms.activations = kept(plan, needs, in_flight(stage));
            communication += states.communication;
            if (is_own) communication += message(stage);
        }
        if (is_own) terms.overhead = communication + runtime_overhead(request_.device);
        return terms;
    }

private:
    TrainingShare share_of_stage(SlotNeeds const& needs, std::int64_t dp) const {
        return {.parameters = needs.parameters,
                .parameter_bytes = needs.weights - needs.buffers - needs.frozen,
                .buffer_bytes = needs.buffers,
                .frozen_bytes = needs.frozen,
                .state_bytes = needs.states,
                .largest_part = needs.largest_part,
                .largest_module = largest_module_,
                .dtype = request_.dtype.value_or(model_->config.dtype_or(Dtype::f32)),
                .dp = dp};
    }

    std::int64_t in_flight(std::int64_t stage) const {
        auto const from_here_on = request_.parallel.pp - stage;
        return request_.micro_batches > 0 && request_.micro_batches < from_here_on ? request_.micro_batches
                                                                                   : from_here_on;
    }

    Bytes kept(TrainingPlan const& plan, SlotNeeds const& needs, std::int64_t micro_batches) const {
        if (counts_everything(plan.convention)) return micro_batches * needs.saved + needs.working;
        if (plan.convention != MemoryConvention::megatron_paper) return Bytes{0};
        auto const& config = model_->config;
        return needs.layers * micro_batches *
               megatron_activations(context_of(request_, config), micro_batch_.batch, config.hidden_size, config.heads,
                                    request_.parallel.tp, request_.parallel.sequence_parallel, plan.recompute);
    }

    /// Where the next micro-batch's hidden state arrives while this one is computed.
    Bytes message(std::int64_t stage) const { return request_.parallel.pp == 1 || stage == 0 ? Bytes{0} : message_; }

    Model const* model_ = nullptr;
    EstimateRequest request_;
    EstimateRequest micro_batch_;
    List<SlotNeeds> kinds_;
    List<SlotNeeds> ties_;
    std::int64_t largest_module_ = 0;
    Bytes message_{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
