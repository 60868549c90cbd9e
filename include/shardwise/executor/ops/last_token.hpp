// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/take_rows.hpp>

#include <concepts>
#include <cstddef>

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
        // Which rows those are, the step's table says.
        auto const out = walk.view(op.output);
        if constexpr (std::same_as<Backend, Host>)
            return take_rows_bound<T>(walk.step.table.wanted(), in, out, walk.stream);
        else
            return take_rows<T>(walk.step.table.wanted(), in, out, walk.stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
