// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/mean_rows.hpp>
#include <shardwise/kernels/take_rows.hpp>

#include <concepts>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<LastTokenOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    /// A row for each sequence of a row for each token.
    static constexpr bool changes_rows = true;

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        TensorView<float const, 2, Backend> const in = row_of<Backend>(op.inputs[0]);
        return check_rows("take_rows", in, in.extent(1), row_of<Backend>(op.output));
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        TensorView<T const, 2, Backend> const in = walk.view(op.inputs[0]);
        // Which rows those are, the step's table says. Sequences lie one after another, each to its last row, and a step of what is
        // pooled has them whole.
        auto const out = walk.view(op.output);
        auto const wanted = walk.step.table.wanted();
        if constexpr (std::same_as<Backend, Host>) {
            if (op.op->taken_row() == TakenRow::mean) return mean_rows_bound<T>(wanted, in, out, walk.stream);
            return take_rows_bound<T>(wanted, in, out, walk.stream);
        } else {
            if (op.op->taken_row() == TakenRow::mean) return mean_rows<T>(wanted, in, out, walk.stream);
            return take_rows<T>(wanted, in, out, walk.stream);
        }
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
