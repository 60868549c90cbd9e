// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/cost/block_messages.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/model/low_rank_names.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a block is computed, for all micro-batches alike.
struct BlockPolicy {
    bool is_sequence_parallel = false;
    Recompute recompute = Recompute::none;
    /// The halves of an adapter are trained alone: other products make no gradients of weights.
    bool has_adapter = false;
};

/// What one operation asks of a device on the fullest rank.
struct OperationDemand {
    OpKind kind = OpKind::add;
    double flops = 0.0;
    /// Activations and cache.
    double bytes = 0.0;
    /// Of its weights.
    double elements = 0.0;
    std::int64_t experts = 0;
    std::int64_t experts_per_token = 0;
    /// Its weights have no gradient.
    bool is_frozen = false;
};

/// What one micro-batch asks for in one block, on whatever devices and links it runs and however experts are sharded:
/// the part of a price that is found once for all of them.
struct BlockDemand {
    List<OperationDemand> operations;
    MessageList messages;
    /// Of all its products with dense weights, and with experts.
    double dense_elements = 0.0;
    double expert_elements = 0.0;
    std::int64_t tokens = 0;
    double output_bytes = 0.0;
};

/// What a block asks for on the fullest of `tp` ranks; `is_table_dealt` where they share an embedding's rows, `grains` by value.
[[nodiscard]] constexpr BlockDemand block_demand(BlockBody const& body, Step const& step, std::int64_t tp,
                                                 bool is_table_dealt, BlockPolicy const& policy,
                                                 Span<UnitGrain const> grains = {}) {
    auto const context =
        op_context(body, step, {.tp = tp, .is_sequence_parallel = policy.is_sequence_parallel && tp > 1}, grains);
    auto const elements_of = [](Operation const& op) {
        return static_cast<double>(op.in_features) * static_cast<double>(op.out_features);
    };
    BlockDemand demand;
    demand.operations.reserve(body.operations().size());
    for (auto const& op : body.operations()) {
        auto const work = op_work(op, context);
        auto const elements = elements_of(op);
        if (op.kind == OpKind::linear) demand.dense_elements += elements;
        if (op.kind == OpKind::experts) demand.expert_elements += elements;
        bool const is_frozen = policy.has_adapter && has_base_weight(op);
        auto const& routing = op.details.any_routing();
        demand.operations.push_back({op.kind, work.flops, work.traffic + work.kv_read, elements, routing.experts,
                                     routing.experts_per_token, is_frozen});
    }
    demand.messages = list_messages(body, context, tp, is_table_dealt);
    demand.tokens = context.step.tokens();
    if (!body.operations().empty())
        demand.output_bytes = static_cast<double>(context.bytes(body.operations().back().output).count());
    return demand;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
