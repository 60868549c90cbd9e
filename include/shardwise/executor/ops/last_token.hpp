// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/take_rows.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<LastTokenOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>& walk, BoundOperation<Backend, Policy> const& op) {
        TensorView<float const, 2, Backend> const in = walk.view(op.inputs[0]);
        // Which rows those are, the step's table says.
        return take_rows<float>(walk.step.table.wanted(), in, walk.view(op.output), walk.stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
