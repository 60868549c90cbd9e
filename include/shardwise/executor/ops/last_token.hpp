// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/take_rows.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<LastTokenOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        TensorView<T const, 2, Backend> const in = walk.view(op.inputs[0]);
        // Which rows those are, the step's table says.
        return take_rows<T>(walk.step.table.wanted(), in, walk.view(op.output), walk.stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
