// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Operations that one activation takes: an exponential, a division and a hyperbolic tangent count as one each.
[[nodiscard]] constexpr double activation_cost(ActivationKind kind) {
    switch (kind) {
        case ActivationKind::relu:
        case ActivationKind::tanh:
            return 1.0;
        case ActivationKind::relu_squared:
            return 2.0;  // max(x, 0)^2
        case ActivationKind::sigmoid:
            return 4.0;  // 1 / (1 + exp(-x))
        case ActivationKind::silu:
            return 4.0;  // x / (1 + exp(-x))
        case ActivationKind::quick_gelu:
            return 5.0;  // x * sigmoid(1.702 x)
        case ActivationKind::gelu:
            return 5.0;  // 0.5 x (1 + erf(x / sqrt 2))
        case ActivationKind::gelu_tanh:
        case ActivationKind::gelu_new:
        case ActivationKind::gelu_fast:
            return 8.0;  // 0.5 x (1 + tanh(c (x + 0.044715 x^3)))
        case ActivationKind::swiglu_clamped:
        case ActivationKind::xielu:
            return 9.0;  // an exponential, and two polynomials
    }
    return 4.0;
}

/// act(in), or act(gate) * up. The parameters of xielu are its alpha_p, alpha_n, beta and eps.
///
/// Shapes  inputs and out [rows, width]; one packed input has both halves, a gate may have one column
struct ActivationOp : OpTraits<OpKind::activation, OpUnit::vectors> {
    static constexpr std::string_view name = "activation";
    static constexpr bool is_element_wise = true;

    /// A gate of another value scales what it multiplies.
    static constexpr bool keeps_partial(Operation const& op, bool is_first_partial, bool) {
        return op.inputs[1] != no_value && op.inputs[1] != op.inputs[0] && !is_first_partial;
    }

    [[nodiscard]] static constexpr GradientRule gradient(Operation const& op, Span<Value const> values) {
        if (op.activation() == ActivationKind::xielu)
            return GradientRule::refused("xIELU (apertus) has no gradient yet");
        if (op.inputs[1] == no_value) return {.has_gradient = {true}, .reads = {true}};
        if (op.activation() == ActivationKind::swiglu_clamped && op.inputs[0] == op.inputs[1])
            return GradientRule::refused("interleaved gates (gpt_oss) have no gradient yet");
        auto const width = [&](ValueId id) { return values[static_cast<std::size_t>(id)].width; };
        if (width(op.inputs[0]) == 1 && width(op.inputs[1]) > 1)
            return GradientRule::refused("one gate for a whole row (shared experts) has no gradient yet");
        return {.has_gradient = {true, true}, .reads = {true, true}, .is_made_together = true};
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        bool const is_gated = op.inputs[1] != no_value;
        auto const elements = static_cast<double>(context.elements(op.output));
        Bytes moved = context.bytes(op.inputs[0]) + context.bytes(op.output);
        if (is_gated && op.inputs[1] != op.inputs[0]) moved += context.bytes(op.inputs[1]);
        return {.flops = elements * (activation_cost(op.activation()) + (is_gated ? 1.0 : 0.0)),
                .traffic = static_cast<double>(moved.count())};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
