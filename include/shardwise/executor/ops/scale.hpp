// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/scale.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<ScaleOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>& walk, BoundOperation<Backend, Policy> const& op) {
        auto const values = walk.view(op.output);
        return scale<float>(TensorView<float const, 2, Backend>(values), values, static_cast<float>(op.op->factor),
                            walk.stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
