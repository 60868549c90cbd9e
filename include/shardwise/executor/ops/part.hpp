// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/copy_rows.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<PartOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        TensorView<T const, 2, Backend> const in = walk.view(op.inputs[0]);
        auto const out = walk.view(op.output);
        auto const width = op.op->out_features;
        // Values lie without gaps: each unit is a row.
        auto const units = out.elements() / width;
        return copy_rows<T>(
            TensorView<T const, 2, Backend>(in.data() + op.op->first_column, {units, width}, op.op->in_features),
            TensorView<T, 2, Backend>(out.data(), {units, width}), walk.stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
