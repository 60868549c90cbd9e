// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/assert.hpp>
#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/add.hpp>

#include <concepts>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<AddOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    using ConstRows = TensorView<float const, 2, Backend>;

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        SHARDWISE_ASSERT(op.inputs[0].rows == op.output.rows && op.inputs[1].rows == op.output.rows);
        return check_addends<float>("add", ConstRows(row_of<Backend>(op.inputs[0])),
                                    ConstRows(row_of<Backend>(op.inputs[1])), row_of<Backend>(op.output));
    }

    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>& walk, BoundOperation<Backend, Policy> const& op) {
        ConstRows const a = walk.view(op.inputs[0]);
        ConstRows const b = walk.view(op.inputs[1]);
        if constexpr (std::same_as<Backend, Host>) {
            return add_bound<float>(a, b, walk.view(op.output), walk.stream);
        } else {
            return add<float>(a, b, walk.view(op.output), walk.stream);
        }
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
