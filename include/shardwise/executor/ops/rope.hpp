// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/op/rope_layout.hpp>

#include <cstddef>
#include <variant>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rotates the rank's heads of queries or keys in place, by its block's kind of rotation.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<RopeOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    [[nodiscard]] static Result<HeldOperation<Backend, Policy>> load(OperationLoader<Backend> const&,
                                                                     Operation const& op, BlockBody const& body,
                                                                     BlockCut const& cut) {
        auto const& shape = op.attention();
        // Of queries, keys and values in one value, the first two turn.
        bool const is_fused = body.values()[static_cast<std::size_t>(op.output)].width ==
                              (shape.heads + shape.kv_heads) * shape.key_dim + shape.kv_heads * shape.value_dim;
        HeldRope held;
        held.columns =
            is_fused ? (cut.heads->query.size() + cut.heads->kv.size()) * shape.key_dim : cut.width(op.output);
        held.heads.head_dim = shape.key_dim;
        held.heads.first = shape.rotary > 0 ? shape.key_dim - shape.rotary : 0;
        held.heads.layout = shape.rope_layout;
        return HeldOperation<Backend, Policy>{held};
    }

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const& to) {
        auto const& held = std::get<HeldRope>(op.held);
        return to.rotations.check(to.rotation, held.columns, held.heads);
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        auto const& held = std::get<HeldRope>(op.held);
        auto values = walk.view(op.output);
        if (held.columns != op.output.width) values = values.columns(0, held.columns);
        auto const& step = walk.step;
        return step.rotations->rotate(walk.block.rotation, values, step.table, held.heads, walk.stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
