// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/executor/held_experts.hpp>
#include <shardwise/executor/latent_attention.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/memory/kv_pages.hpp>
#include <shardwise/parallel/attend_heads.hpp>
#include <shardwise/parallel/detail/product_tree.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/vocab_head.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a rank caches for an attention: its heads' keys and values, or the latent, which every rank needs whole.
[[nodiscard]] constexpr KvLayer kv_layer(AttentionShape const& shape, HeadShare const& share) {
    if (shape.latent > 0) return {1, shape.latent, 0, 0};
    return {share.kv.size(), shape.key_dim, shape.value_dim, shape.window};
}

/// The room of a rank's cache.
[[nodiscard]] constexpr KvRoom kv_room(ExecutorLimits const& limits) {
    return {.sequences = limits.sequences,
            .context = limits.context,
            .step_tokens = limits.step_tokens,
            .tokens = limits.cache_tokens,
            .dtype = limits.kv_dtype};
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
                    .dtype = Dtype::f32,
                    .token_limit = limits.step_tokens};
    return plan_activations(local, op_context(local, step, {.ep = experts.ranks, .ep_rank = experts.rank}));
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

/// The floats that a block's kernels and sums need beside their values in any step.
template <ComputeBackend Backend, ReductionPolicy Policy>
[[nodiscard]] std::int64_t scratch_floats(BlockBody const& body, BlockCut const& cut, TensorPlace place,
                                          ExecutorLimits const& limits, std::int64_t vocabulary) {
    std::int64_t most = 0;
    for (auto const& norm : cut.norms) {
        if (norm) most = std::max(most, norm->workspace(limits.step_tokens));
    }
    for (auto const& op : body.operations()) {
        auto const& made = body.values()[static_cast<std::size_t>(op.output)];
        if (op.kind == OpKind::linear && made.spread == Spread::partial && Policy::has_fixed_tree) {
            auto const& pieces = *cut.pieces[static_cast<std::size_t>(op.inputs[0])];
            detail::ProductTree<Backend> const sum(pieces, op.out_features, place);
            most = std::max(most, sum.most_workspace(limits.step_tokens));
        }
        if (op.kind == OpKind::experts && made.spread != Spread::partial) {
            // Gathered rows of one expert, which every token may have chosen.
            most = std::max(most, limits.step_tokens * op.in_features);
        } else if (op.kind == OpKind::experts) {
            auto const& pieces = *cut.pieces[static_cast<std::size_t>(op.inputs[0])];
            ExpertRows<Backend, Policy> const rows(pieces, place, op.out_features);
            most = std::max(most, rows.workspace(limits.step_tokens * op.experts_per_token));
        }
        if (op.kind == OpKind::attention && op.attention.latent > 0) {
            most = std::max(
                most, latent_workspace(op.attention, cut.heads->query.size(), limits.step_tokens, limits.context));
        } else if (op.kind == OpKind::attention) {
            AttentionOptions options;
            options.shape = op.attention;
            // For the longest chunk and for one token: a chunk between them that needs more goes without.
            most = std::max(most, attend_heads_workspace(options, *cut.heads, limits.step_tokens, limits.context));
            most = std::max(most, attend_heads_workspace(options, *cut.heads, 1, limits.context));
        }
        if (op.kind == OpKind::linear && op.out_features == vocabulary) {
            auto const rows = made.rows == Rows::sequences ? limits.sequences : limits.step_tokens;
            most = std::max(most, gather_logits_workspace(rows, vocabulary));
        }
    }
    return most;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
