// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/add.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<AddOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        using ConstRows = TensorView<T const, 2, Backend>;
        return add<T>(ConstRows(walk.view(op.inputs[0])), ConstRows(walk.view(op.inputs[1])), walk.view(op.output),
                      walk.stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
