// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/scale_rows.hpp>
#include <shardwise/kernels/xielu.hpp>

#include <cstddef>
#include <utility>
#include <variant>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// act(in), act(gate) * up from two values or from the halves of one, or rows times the activation of one number each.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<ActivationOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    using Held = HeldOperation<Backend, Policy>;

    /// The four numbers of an xielu, as its formula takes them.
    [[nodiscard]] static Result<Held> load(OperationLoader<Backend> const& from, Operation const& op, BlockBody const&,
                                           BlockCut const&) {
        if (op.activation != ActivationKind::xielu) return Held{};
        float stored[4] = {};
        for (std::size_t slot = 0; slot < 4; ++slot) {
            auto const parameter = from.find(op.parameters[slot]);
            if (!parameter) return parameter.error();
            auto const value = from.parameters().floats(*parameter, 1);
            if (!value) return value.error();
            stored[slot] = value->front();
        }
        auto const own = XieluNumbers::of_stored(stored[0], stored[1], stored[2], stored[3]);
        auto held = hold_floats<Backend>(from.context(), {own.alpha_p, own.alpha_n, own.beta, own.eps});
        if (!held) return held.error();
        return Held{HeldVector<Backend>{std::move(*held)}};
    }
    [[nodiscard]] static Result<> count(MemoryTally& to, CountedBlock const&, Operation const& op, ParameterFormat) {
        for (std::size_t slot = 0; slot < 4; ++slot) to.add_vector(op, slot, 1);
        return {};
    }

    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>& walk, Operation const& op, std::size_t number) {
        using ConstRows = TensorView<float const, 2, Backend>;
        auto const out = walk.view(op.output);
        ConstRows const gate = walk.view(op.inputs[0]);
        auto& stream = walk.stream;
        if (auto const* const numbers = std::get_if<HeldVector<Backend>>(&walk.held(number)))
            return xielu(gate, numbers->values.view(), out, stream);
        if (op.inputs[1] == no_value) return activation<float>(gate, out, op.activation, stream);
        if (op.inputs[1] == op.inputs[0]) {
            auto const width = out.extent(1);
            return gated_activation<float>(gate.columns(0, width), gate.columns(width, width), out, op.activation,
                                           stream);
        }
        ConstRows const other = walk.view(op.inputs[1]);
        auto const& values = walk.values;
        bool const has_one_gate = values.of(op.inputs[0]).width == 1 && values.of(op.output).width > 1;
        if (has_one_gate) return scale_rows(gate, other, out, op.activation, stream);
        return gated_activation<float>(gate, other, out, op.activation, stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
