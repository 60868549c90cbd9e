// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/rope.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rotates the rank's heads of queries or keys in place, by its block's frequencies.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<RopeOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>& walk, Operation const& op, std::size_t) {
        auto const& block = walk.block;
        auto const& shape = op.attention;
        auto values = walk.view(op.output);
        // Of queries, keys and values in one value, the first two turn.
        auto const turning = (block.cut.heads->query.size() + block.cut.heads->kv.size()) * shape.key_dim;
        bool const is_fused = walk.values.of(op.output).width == (shape.heads + shape.kv_heads) * shape.key_dim +
                                                                     shape.kv_heads * shape.value_dim;
        if (is_fused) values = values.columns(0, turning);
        auto const layout = walk.model.config.interleaved_rope ? RopeLayout::interleaved : RopeLayout::half;
        auto const first = shape.rotary > 0 ? shape.key_dim - shape.rotary : 0;
        typename BlockWalk<Backend, Policy, C>::Vector const frequencies = block.frequencies.view();
        return rope<float>(values, walk.step.table.positions(), frequencies, shape.key_dim, layout, walk.stream,
                           block.rope_scale, first);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
