// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/scale_rows.hpp>
#include <shardwise/kernels/xielu.hpp>

#include <concepts>
#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// act(in), act(gate) * up from two values or from the halves of one, or rows times the activation of one number each.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<ActivationOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    using Held = HeldOperation<Backend, Policy>;

    /// What it reads, and the four numbers of an xielu, as its formula takes them.
    [[nodiscard]] static Result<Held> load(OperationLoader<Backend> const& from, Operation const& op,
                                           BlockBody const& body, BlockCut const&) {
        HeldActivation<Backend> held;
        held.form = form_of(op, body);
        if (held.form != ActivationForm::xielu) return Held{std::move(held)};
        float stored[4] = {};
        for (std::size_t slot = 0; slot < 4; ++slot) {
            auto const parameter = from.find(op.parameters[slot]);
            if (!parameter) return parameter.error();
            auto const value = from.parameters().floats(*parameter, 1);
            if (!value) return value.error();
            stored[slot] = value->front();
        }
        auto const own = XieluNumbers::of_stored(stored[0], stored[1], stored[2], stored[3]);
        auto numbers = hold_floats<Backend>(from.context(), {own.alpha_p, own.alpha_n, own.beta, own.eps});
        if (!numbers) return numbers.error();
        held.numbers = std::move(*numbers);
        return Held{std::move(held)};
    }
    [[nodiscard]] static Result<> count(MemoryTally& to, CountedBlock const&, Operation const& op, ParameterFormat) {
        // One allocation of all four.
        if (!op.parameters[0].empty()) to.add_weights(4 * 4);
        return {};
    }

    /// Of those that the host's kernels are not asked in steps.
    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        using Row = TensorView<float const, 2, Backend>;
        auto const form = std::get<HeldActivation<Backend>>(op.held).form;
        Row const first = row_of<Backend>(op.inputs[0]);
        switch (form) {
            case ActivationForm::xielu: {
                auto const& held = std::get<HeldActivation<Backend>>(op.held);
                TensorView<float const, 1, Backend> const numbers = held.numbers.view();
                return check_xielu(first, numbers, row_of<Backend>(op.output));
            }
            case ActivationForm::one_gate: {
                Row const in = row_of<Backend>(op.inputs[1]);
                auto const fits = check_rows("scale_rows", in, in.extent(1), row_of<Backend>(op.output));
                return fits ? check_row_gate("scale_rows", first, 1) : fits;
            }
            case ActivationForm::one:
            case ActivationForm::halves:
            case ActivationForm::pair:
                break;
        }
        auto const name =
            form == ActivationForm::one ? std::string_view("activation") : std::string_view("gated_activation");
        if (auto const known = check_kind(name, op.op->activation()); !known) return known;
        auto gate = op.inputs[0];
        auto up = form == ActivationForm::pair ? op.inputs[1] : gate;
        if (form == ActivationForm::halves) {
            auto const width = op.output.width;
            if (gate.width != 2 * width)
                return check_rows(name, Row(row_of<Backend>(gate)), 2 * width, row_of<Backend>(op.output));
            gate.width = up.width = width;
        }
        Row const from = row_of<Backend>(gate);
        if (auto const fits = check_rows(name, from, gate.width, row_of<Backend>(op.output)); !fits) return fits;
        return form == ActivationForm::one ? Result<>{} : check_gate(name, from, Row(row_of<Backend>(up)));
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        using ConstRows = TensorView<T const, 2, Backend>;
        auto const& held = std::get<HeldActivation<Backend>>(op.held);
        auto const kind = op.op->activation();
        auto const out = walk.view(op.output);
        ConstRows const gate = walk.view(op.inputs[0]);
        auto& stream = walk.stream;
        switch (held.form) {
            case ActivationForm::xielu:
                if constexpr (std::same_as<Backend, Host>) return xielu_bound(gate, held.numbers.view(), out, stream);
                return xielu(gate, held.numbers.view(), out, stream);
            case ActivationForm::one:
                if constexpr (std::same_as<Backend, Host>) return activation_bound<T>(gate, out, kind, stream);
                return activation<T>(gate, out, kind, stream);
            case ActivationForm::halves: {
                auto const width = op.output.width;
                return run_pair<T>(gate.columns(0, width), gate.columns(width, width), out, kind, stream);
            }
            case ActivationForm::one_gate: {
                ConstRows const in = walk.view(op.inputs[1]);
                if constexpr (std::same_as<Backend, Host>) return scale_rows_bound(gate, in, out, kind, stream);
                return scale_rows(gate, in, out, kind, stream);
            }
            case ActivationForm::pair:
                return run_pair<T>(gate, walk.view(op.inputs[1]), out, kind, stream);
        }
        __builtin_unreachable();
    }

private:
    template <ActivationElement T>
    [[nodiscard]] static Result<> run_pair(TensorView<T const, 2, Backend> gate, TensorView<T const, 2, Backend> up,
                                           TensorView<T, 2, Backend> out, ActivationKind kind,
                                           typename Backend::Stream& stream) {
        if constexpr (std::same_as<Backend, Host>) {
            return gated_activation_bound<T>(gate, up, out, kind, stream);
        } else {
            return gated_activation<T>(gate, up, out, kind, stream);
        }
    }
    [[nodiscard]] static ActivationForm form_of(Operation const& op, BlockBody const& body) {
        auto const width = [&](ValueId id) { return body.values()[static_cast<std::size_t>(id)].width; };
        if (op.activation() == ActivationKind::xielu) return ActivationForm::xielu;
        if (op.inputs[1] == no_value) return ActivationForm::one;
        if (op.inputs[1] == op.inputs[0]) return ActivationForm::halves;
        bool const has_one_gate = width(op.inputs[0]) == 1 && width(op.output) > 1;
        return has_one_gate ? ActivationForm::one_gate : ActivationForm::pair;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
