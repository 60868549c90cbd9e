// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/add.hpp>

#include <concepts>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<AddOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    using Row = TensorView<float const, 2, Backend>;

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        return check_addends<float>("add", Row(row_of<Backend>(op.inputs[0])), Row(row_of<Backend>(op.inputs[1])),
                                    row_of<Backend>(op.output));
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        TensorView<T const, 2, Backend> const a = walk.view(op.inputs[0]);
        TensorView<T const, 2, Backend> const b = walk.view(op.inputs[1]);
        if constexpr (std::same_as<Backend, Host>) {
            return add_bound<T>(a, b, walk.view(op.output), walk.stream);
        } else {
            return add<T>(a, b, walk.view(op.output), walk.stream);
        }
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
