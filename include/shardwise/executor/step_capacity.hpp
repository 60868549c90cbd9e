// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/kernels/step_bounds.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/memory/kv_pages.hpp>
#include <shardwise/parallel/place.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a rank keeps of sequences for an operation; nothing for one that has no past.
[[nodiscard]] inline std::optional<KvLayer> cached_layer(Operation const& op, BlockCut const& cut) {
    auto const kept = kept_heads(op);
    if (!kept.is_kept()) return std::nullopt;
    auto const heads = kept.split.is_shared() ? cut.kept_heads(op.kind) : 1;
    return KvLayer{.heads = kept.key > 0 ? heads : 0,
                   .key_dim = kept.key,
                   .value_dim = kept.value,
                   .window = kept.window,
                   .state = heads * kept.state};
}

/// The capacity of a rank's cache.
[[nodiscard]] constexpr KvCapacity kv_capacity(ExecutorLimits const& limits) {
    return {.sequences = limits.sequences,
            .context = limits.context,
            .step_tokens = limits.step_tokens,
            .tokens = limits.cache_tokens,
            .dtype = limits.kv_dtype};
}

/// The bounds of a rank's steps, whose cache has so many lists of pages for each sequence.
[[nodiscard]] constexpr StepBounds step_bounds(ExecutorLimits const& limits, std::int64_t groups) {
    auto const sequences = std::min(limits.sequences, limits.step_tokens);
    return {.tokens = limits.step_tokens,
            .sequences = sequences,
            .wanted = sequences,
            .groups = groups,
            .pages = groups > 0 ? ceil_divide(limits.context, kv_page_tokens) : 0,
            .page_rows = kv_page_tokens};
}

/// Elements of a head among which some turn.
[[nodiscard]] constexpr std::int64_t rotated_width(AttentionShape const& shape) {
    return shape.rotary > 0 ? shape.rotary : shape.key_dim;
}

/// Where a rank's values of a block lie in the arena in its largest step: every smaller one fits at the same places.
/// `experts` is the rank's place among those that share the experts.
[[nodiscard]] inline ActivationPlan plan_largest_step(BlockBody const& local, ExecutorLimits const& limits,
                                                      TensorPlace experts = {}) {
    // Rows: tokens of the step, and one per sequence.
    auto const sequences = std::min(limits.sequences, limits.step_tokens);
    Step const step{.batch = sequences,
                    .new_tokens = ceil_divide(limits.step_tokens, sequences),
                    .context = limits.context,
                    .dtype = limits.activations,
                    .token_limit = limits.step_tokens};
    return plan_activations(local, op_context(local, step, {.ep = experts.ranks, .ep_rank = experts.rank}));
}

/// The most rows that a rank's experts are given in a step.
[[nodiscard]] inline std::int64_t routed_room(ModelConfig const& config, ExecutorLimits const& limits,
                                              TensorPlace experts) {
    auto const own = split_units(config.experts, experts.ranks, experts.rank).size();
    return limits.step_tokens * std::min(config.experts_per_token, own);
}

/// A body as one rank computes it.
struct PlannedBody {
    std::int32_t program = 0;
    BlockBody local;
    ActivationPlan plan;
};

/// The number of a body among those of a rank, where it is put if it is new. Blocks of one program share a plan only
/// where this rank's parts of their values are as wide: weights of other formats may be cut otherwise.
[[nodiscard]] inline std::size_t number_of_body(std::vector<PlannedBody>& bodies, std::int32_t program,
                                                BlockBody local) {
    auto const is_same = [&](PlannedBody const& body) {
        bool same = body.program == program;
        for (std::size_t id = 0; same && id < local.values().size(); ++id)
            same = body.local.values()[id].width == local.values()[id].width;
        return same;
    };
    auto const found = std::find_if(bodies.begin(), bodies.end(), is_same);
    auto const number = static_cast<std::size_t>(found - bodies.begin());
    if (found == bodies.end()) bodies.push_back({program, std::move(local), {}});
    return number;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
