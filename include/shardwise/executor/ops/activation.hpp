// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/scale_rows.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// act(in), act(gate) * up from two values or from the halves of one, or rows times the activation of one number each.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<ActivationOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>& walk, Operation const& op, std::size_t) {
        auto const out = walk.view(op.output);
        auto const gate = walk.view(op.inputs[0]);
        auto& stream = walk.stream;
        if (op.inputs[1] == no_value) return activation<float>(gate, out, op.activation, stream);
        if (op.inputs[1] == op.inputs[0]) {
            auto const width = out.extent(1);
            return gated_activation<float>(gate.columns(0, width), gate.columns(width, width), out, op.activation,
                                           stream);
        }
        auto const& values = walk.values;
        bool const has_one_gate = values.of(op.inputs[0]).width == 1 && values.of(op.output).width > 1;
        if (has_one_gate) return scale_rows(gate, walk.view(op.inputs[1]), out, op.activation, stream);
        return gated_activation<float>(gate, walk.view(op.inputs[1]), out, op.activation, stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
