// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/scale.hpp>

#include <concepts>
#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<ScaleOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        TensorView<float const, 2, Backend> const in = row_of<Backend>(op.inputs[0]);
        return check_rows("scale", in, in.extent(1), row_of<Backend>(op.output));
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        auto const by = [&]<class Element>(TensorView<Element, 2, Backend> values) {
            TensorView<Element const, 2, Backend> const in = values;
            auto const factor = static_cast<float>(op.op->factor());
            if constexpr (std::same_as<Backend, Host>)
                return scale_bound<Element>(in, values, factor, walk.stream);
            else
                return scale<Element>(in, values, factor, walk.stream);
        };
        return op.output.is_in_float ? by(walk.floats(op.output)) : by(walk.view(op.output));
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
