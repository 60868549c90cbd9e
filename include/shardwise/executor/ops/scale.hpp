// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/scale.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<ScaleOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        auto const by = [&]<class Element>(TensorView<Element, 2, Backend> values) {
            return scale<Element>(TensorView<Element const, 2, Backend>(values), values,
                                  static_cast<float>(op.op->factor), walk.stream);
        };
        return op.output.is_in_float ? by(walk.floats(op.output)) : by(walk.view(op.output));
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
