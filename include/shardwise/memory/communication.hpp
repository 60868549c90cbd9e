// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/activations.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The buffers that a block's exchanges between ranks need beside its values: one staging copy of the largest partial
/// sum that is reduced over tensor- or expert-parallel ranks, or of the largest value that sequence parallelism
/// gathers; and on one rank the gathered logits.
[[nodiscard]] constexpr Bytes communication_buffer(BlockBody const& body, OpContext const& context) {
    auto const& rank = context.rank;
    if (rank.tp == 1 && rank.ep == 1) return Bytes{0};
    Bytes largest{0};
    auto const consider = [&largest](Bytes bytes) {
        if (largest < bytes) largest = bytes;
    };
    for (auto const& op : body.operations()) {
        auto const& out = context.value(op.output);
        bool const is_reduced = (rank.tp > 1 && out.spread == Spread::partial && out.rows != Rows::routed) ||
                                (rank.ep > 1 && op.kind == OpKind::combine);
        if (is_reduced) consider(context.bytes(op.output));
        if (rank.tp > 1 && op.kind == OpKind::linear) {
            auto const& in = context.value(op.inputs[0]);
            if (rank.is_sequence_parallel && in.spread == Spread::replicated && in.rows == Rows::tokens) {
                auto whole = context;
                whole.rank.is_sequence_parallel = false;
                consider(whole.bytes(op.inputs[0]));
            }
        }
    }
    if (rank.tp > 1 && rank.tp_rank == 0 && !body.operations().empty()) {
        auto const& last = context.value(body.operations().back().output);
        if (last.is_fp32 && last.spread == Spread::sharded && !context.step.is_training) {
            consider(Bytes{4 * context.rows(last) * last.width});
        }
    }
    return largest;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
