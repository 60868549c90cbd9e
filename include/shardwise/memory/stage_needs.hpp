// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/span.hpp>
#include <shardwise/memory/communication.hpp>
#include <shardwise/memory/held_memory.hpp>
#include <shardwise/memory/saved_activations.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What some parts of a model take on one rank, whichever pipeline stage they are on: sums, and the most of what one block at a
/// time needs.
struct StageNeeds {
    HeldMemory held{};
    Bytes kv_cache{};
    /// Activations that one micro-batch leaves for its backward pass.
    Bytes saved{};
    /// Of the part with the most weights.
    Bytes largest_part{};
    /// Activations of the block that works; in training both phases are the step's.
    ActivationPeaks working{};
    /// Buffers of exchanges within the block that works.
    Bytes communication{};
    std::int64_t layers = 0;

    /// Puts `count` parts like `other` beside these.
    constexpr void add(StageNeeds const& other, std::int64_t count = 1) {
        held += count * other.held;
        kv_cache += count * other.kv_cache;
        saved += count * other.saved;
        layers += count * other.layers;
        if (largest_part < other.largest_part) largest_part = other.largest_part;
        if (working.prefill < other.working.prefill) working.prefill = other.working.prefill;
        if (working.decode < other.working.decode) working.decode = other.working.decode;
        if (communication < other.communication) communication = other.communication;
    }
};

/// The request whose sizes a block works with at a time: of one micro-batch, prompts in chunks.
[[nodiscard]] constexpr EstimateRequest working_request(Model const& model, EstimateRequest const& request) {
    return micro_batch_of(prefill_request(model, request));
}

/// The largest step of a micro-batch, in training the only one. `micro_batch` is working_request's.
[[nodiscard]] constexpr Step largest_step(EstimateRequest const& micro_batch, ModelConfig const& config) {
    return micro_batch.training ? training_step(micro_batch, config)
                                : largest_step_of(Phase::prefill, micro_batch, config);
}

/// What a block takes in training whose values take `laid_out` while it runs.
[[nodiscard]] constexpr StageNeeds training_needs(BlockBody const& body, OpContext const& context,
                                                  TrainingPlan const& plan, Bytes laid_out) {
    auto const working = laid_out + remade_activations(body, context, plan);
    return {.saved = saved_activations(body, context, plan), .working = {working, working}};
}

/// What a block that runs `body` takes on a rank while it runs, but for its cache and its exchanges; `grains` as GrainedBody has
/// them. Conventions that count model states only count none of it.
[[nodiscard]] constexpr StageNeeds working_needs(BlockBody const& body, EstimateRequest const& micro_batch,
                                                 ModelConfig const& config, RankPlace const& place,
                                                 Span<UnitGrain const> grains) {
    auto const& training = micro_batch.training;
    if (!training) return {.working = activation_peaks(body, micro_batch, config, place, grains)};
    if (!counts_everything(training->convention)) return {};
    auto const rank = op_rank(micro_batch.parallel, place);
    auto const context = op_context(body, largest_step(micro_batch, config), rank, grains);
    return training_needs(body, context, *training, plan_activations(body, context).layout.peak);
}

/// The buffers of exchanges within a block that runs `body`.
[[nodiscard]] constexpr Bytes exchange_buffer(BlockBody const& body, EstimateRequest const& micro_batch,
                                              ModelConfig const& config, RankPlace const& place,
                                              Span<UnitGrain const> grains) {
    if (micro_batch.training && !counts_everything(micro_batch.training->convention)) return Bytes{0};
    auto const rank = op_rank(micro_batch.parallel, place);
    return communication_buffer(body, op_context(body, largest_step(micro_batch, config), rank, grains));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
