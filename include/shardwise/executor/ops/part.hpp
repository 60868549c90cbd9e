// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/copy_rows.hpp>

#include <concepts>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<PartOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        auto const& part = *op.op;
        bool const is_whole = part.out_features > 0 && op.output.width % part.out_features == 0;
        auto const units = is_whole ? op.output.width / part.out_features : 0;
        bool const is_inside = part.first_column() >= 0 && part.first_column() + part.out_features <= part.in_features;
        if (is_whole && is_inside && op.inputs[0].width == units * part.in_features) return {};
        return Error{ErrorCode::shape_mismatch}
            .in("part")
            .because("the input does not have the columns of which the output is a part")
            .got(op.inputs[0].width)
            .expected(units * part.in_features);
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        TensorView<T const, 2, Backend> const in = walk.view(op.inputs[0]);
        auto const out = walk.view(op.output);
        auto const width = op.op->out_features;
        // Values lie without gaps: each unit is a row.
        auto const units = out.elements() / width;
        TensorView<T const, 2, Backend> const from(in.data() + op.op->first_column(), {units, width},
                                                   op.op->in_features);
        TensorView<T, 2, Backend> const to(out.data(), {units, width});
        if constexpr (std::same_as<Backend, Host>)
            return copy_rows_bound<T>(from, to, walk.stream);
        else
            return copy_rows<T>(from, to, walk.stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
