// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/kv_cache.hpp>
#include <shardwise/memory/stage_memory.hpp>
#include <shardwise/plan/layer_slots.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What every kind of slot holds of the model on one rank of a tensor- and expert-parallel group: the estimator's
/// numbers, kept by slot so that any cut into stages is a sum.
struct RankWeights {
    List<StageNeeds> kinds;
    List<HeldMemory> ties;
    /// The elements of the module with the most parameters of its own.
    std::int64_t largest_module = 0;
};

/// What every kind of slot holds of the model on the rank `place` of the request's groups.
[[nodiscard]] inline RankWeights weigh_rank(Model const& model, EstimateRequest const& request, ModelParts const& parts,
                                            LayerSlots const& slots, RankPlace const& place) {
    RankWeights weights;
    List<StageNeeds> held(parts.parts.size());
    for (auto const& slot : slots.kinds) {
        StageNeeds needs;
        for (auto const part : slot.parts) {
            if (held[part].largest_part.count() == 0) {
                held[part].held = held_memory(model, parts.parts[part], request, place);
                held[part].largest_part = held[part].held.weights;
            }
            needs.add(held[part]);
        }
        needs.layers = parts.layers > 0 ? 1 : 0;
        weights.kinds.push_back(needs);
    }
    for (auto const& tie : parts.ties) weights.ties.push_back(held_memory(tie, request, place));
    weights.largest_module = largest_module(model, request, place);
    return weights;
}

/// What every body of the program (ModelParts::bodies) takes on a rank while it runs, but for the cache; `micro_batch.batch` goes
/// through it at a time.
[[nodiscard]] inline List<StageNeeds> body_needs(Model const& model, ModelParts const& parts,
                                                 EstimateRequest const& request, RankPlace const& place) {
    auto const micro_batch = prefill_request(model, request);
    List<StageNeeds> all;
    for (auto const& grained : parts.bodies) {
        auto const& body = model.program.bodies()[static_cast<std::size_t>(grained.body)];
        auto needs = working_needs(body, micro_batch, model.config, place, grained.span());
        needs.communication = exchange_buffer(body, micro_batch, model.config, place, grained.span());
        all.push_back(needs);
    }
    return all;
}

/// The same on the first rank of a group, without a layout: no more than what is alive at once in the longer pass.
[[nodiscard]] inline List<StageNeeds> min_body_needs(Model const& model, ModelParts const& parts,
                                                     EstimateRequest const& request) {
    auto const micro_batch = prefill_request(model, request);
    List<StageNeeds> all;
    bool const is_own = !micro_batch.training || counts_everything(micro_batch.training->convention);
    for (auto const& grained : parts.bodies) {
        auto const& body = model.program.bodies()[static_cast<std::size_t>(grained.body)];
        StageNeeds needs;
        if (is_own) {
            auto const step = largest_step(micro_batch, model.config);
            auto const context = op_context(body, step, op_rank(micro_batch.parallel, {}), grained.span());
            auto const least = min_activations(body, context);
            needs.working = {least, least};
            if (micro_batch.training) needs = training_needs(body, context, *micro_batch.training, least);
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
               RankWeights const& held, List<StageNeeds> const& bodies, RankPlace const& place)
        : rule_(model, request, held.largest_module), kinds_(held.kinds), ties_(held.ties) {
        for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
            for (auto const body : slots.kinds[kind].bodies) {
                kinds_[kind].add(bodies[body]);
                if (!request.training) kinds_[kind].kv_cache += body_cache(model, parts, body, request, place.tp);
            }
        }
    }

    [[nodiscard]] List<StageNeeds> const& kinds() const { return kinds_; }
    [[nodiscard]] HeldMemory const& tie(std::size_t tie) const { return ties_[tie]; }

    /// The slots from `begin` to `end`, ties within them once.
    [[nodiscard]] StageNeeds sum(LayerSlots const& slots, std::int64_t begin, std::int64_t end) const {
        StageNeeds needs;
        for (auto slot = begin; slot < end; ++slot) needs.add(kinds_[slots.kind_of[static_cast<std::size_t>(slot)]]);
        for (auto const& tie : slots.ties) {
            auto const is_here = [&](std::int64_t slot) { return slot >= begin && slot < end; };
            if (is_here(tie.first) && is_here(tie.other)) needs.held -= ties_[tie.tie];
        }
        return needs;
    }

    /// The memory of stage `stage` of the request's pipeline that holds `needs`.
    [[nodiscard]] MemoryTerms stage_memory(StageNeeds const& needs, std::int64_t stage, std::int64_t dp,
                                           std::int32_t zero) const {
        return rule_.memory(needs, stage, dp, zero).terms;
    }

private:
    StageRule rule_;
    List<StageNeeds> kinds_;
    List<HeldMemory> ties_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
