// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/backward/activation.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// act(in), or act(gate) * up from two values or from the halves of one.
template <>
struct TrainedOp<ActivationOp> : NeedsNoScratch, HasNoParameters {
    using Matrix = TrainingWalk::Matrix;

    [[nodiscard]] static Result<> forward(TrainingWalk const& walk, Operation const& op, std::size_t) {
        auto const out = walk.value(op.output);
        auto const first = walk.value(op.inputs[0]);
        if (op.inputs[1] == no_value) return activation<float>(first, out, op.activation(), walk.stream);
        return gated_activation<float>(gate_of(first, op), up_of(walk.value(op.inputs[1]), op), out, op.activation(),
                                       walk.stream);
    }
    [[nodiscard]] static Result<> inputs(TrainingWalk const& walk, Operation const& op, std::size_t,
                                         GradientStep const& step) {
        auto const first = walk.value(op.inputs[0]);
        auto const to = walk.gradient(step.writes[0]);
        auto const gradient = walk.gradient(step.reads);
        if (op.inputs[1] == no_value)
            return activation_backward(first, gradient, to, step.is_added[0], op.activation(), walk.stream);
        return gated_activation_backward(gate_of(first, op), up_of(walk.value(op.inputs[1]), op), gradient,
                                         gate_of(to, op), up_of(walk.gradient(step.writes[1]), op), step.is_added[0],
                                         op.activation(), walk.stream);
    }

private:
    [[nodiscard]] static bool is_packed(Operation const& op) { return op.inputs[0] == op.inputs[1]; }
    [[nodiscard]] static Matrix gate_of(Matrix value, Operation const& op) {
        return is_packed(op) ? value.columns(0, value.extent(1) / 2) : value;
    }
    [[nodiscard]] static Matrix up_of(Matrix value, Operation const& op) {
        return is_packed(op) ? value.columns(value.extent(1) / 2, value.extent(1) / 2) : value;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
