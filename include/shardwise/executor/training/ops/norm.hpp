// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/kernels/backward/layer_norm.hpp>
#include <shardwise/kernels/backward/rms_norm.hpp>
#include <shardwise/kernels/layer_norm.hpp>
#include <shardwise/kernels/rms_norm.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
struct TrainedOp<NormOp> {
    [[nodiscard]] static std::int64_t scratch(Operation const& op, BackwardBody const& body, std::int64_t tokens) {
        auto const heads = body.values[static_cast<std::size_t>(op.inputs[0])].width / op.in_features;
        // Doubles.
        return 2 * norm_backward_workspace(tokens * heads);
    }
    [[nodiscard]] static Result<> forward(TrainingWalk const& walk, Operation const& op, std::size_t number) {
        if (!spans_shared(walk, op)) return run(walk, op, number, walk.value(op.inputs[0]), walk.value(op.output));
        for (std::int64_t first = 0; first < walk.tokens; first += walk.sequence) {
            auto const own = walk.value(op.inputs[0]).rows(first, walk.sequence);
            auto const all = walk.gather(op.inputs[0], own, walk.tensor->first);
            TrainingWalk::Matrix const made(walk.tensor->second, {walk.sequence, op.in_features});
            if (auto const done = run(walk, op, number, all, made); !done) return done;
            take_own(*walk.tensor, walk.shared_value(op.output), made, walk.value(op.output).rows(first, walk.sequence),
                     walk.stream);
        }
        return {};
    }
    [[nodiscard]] static Result<> inputs(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                         GradientStep const& step) {
        if (spans_shared(walk, op)) return inputs_of_all(walk, op, number, step);
        auto const to = rows_of(walk.gradient(step.writes[0]), op);
        return take_back(walk, op, number, walk.value(op.inputs[0]), walk.gradient(step.reads), to, step.is_added[0],
                         {}, {}, false);
    }
    [[nodiscard]] static Result<> parameters(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                             GradientStep const& step) {
        bool const is_added = walk.adds(number, 0);
        (void)walk.adds(number, 1);
        auto in = walk.value(op.inputs[0]);
        auto out_gradient = walk.gradient(step.reads);
        // The norms of all ranks' heads have one weight, whose gradient is a sum over all of them.
        if (walk.is_shared(op.inputs[0])) {
            in = walk.gather(op.inputs[0], in, walk.tensor->first);
            out_gradient = walk.gather(step.reads, out_gradient, walk.tensor->second);
        }
        return take_back(walk, op, number, in, out_gradient, {}, false, walk.parameter_gradient(number, 0),
                         walk.parameter_gradient(number, 1), is_added);
    }

private:
    /// True for a norm of whole rows, of which tensor-parallel ranks have columns.
    [[nodiscard]] static bool spans_shared(TrainingWalk const& walk, Operation const& op) {
        return walk.is_shared(op.inputs[0]) && op.in_features == walk.shared_value(op.inputs[0]).width;
    }
    [[nodiscard]] static Result<> run(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                      TrainingWalk::Matrix of, TrainingWalk::Matrix to) {
        TrainingWalk::ConstMatrix const in = rows_of(of, op);
        auto const out = rows_of(to, op);
        auto const weight = walk.weight(number, 0);
        if (is_layer_norm(op.norm().kind))
            return layer_norm<float>(in, weight, walk.weight(number, 1), out, epsilon_of(walk, op), walk.stream);
        return rms_norm<float>(in, weight, out, epsilon_of(walk, op), walk.stream, offset_of(op));
    }
    /// Each rank computes whole rows and takes its columns.
    [[nodiscard]] static Result<> inputs_of_all(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                                GradientStep const& step) {
        if (step.is_added[0])
            return Error{ErrorCode::unsupported}
                .in(op.parameters[0])
                .because("is a norm of what other operations read, too, which tensor-parallel ranks do not train yet");
        auto const& tensor = *walk.tensor;
        auto const all = walk.gather(op.inputs[0], walk.value(op.inputs[0]), tensor.first);
        auto const gradient = walk.gather(step.reads, walk.gradient(step.reads), tensor.second);
        // Nothing is gathered until it is read.
        TrainingWalk::Matrix const made(tensor.staging, {walk.tokens, op.in_features});
        auto const done = take_back(walk, op, number, all, gradient, rows_of(made, op), false, {}, {}, false);
        if (done) take_own(tensor, walk.shared_value(op.inputs[0]), made, walk.gradient(step.writes[0]), walk.stream);
        return done;
    }
    /// A norm of each head has the heads as rows.
    [[nodiscard]] static TrainingWalk::Matrix rows_of(TrainingWalk::Matrix all, Operation const& op) {
        return {all.data(), {all.extent(0) * (all.extent(1) / op.in_features), op.in_features}};
    }
    [[nodiscard]] static float epsilon_of(TrainingWalk const& walk, Operation const& op) {
        return static_cast<float>(op.norm().epsilon > 0.0 ? op.norm().epsilon : walk.model.config.norm_epsilon);
    }
    [[nodiscard]] static float offset_of(Operation const& op) {
        return op.norm().kind == NormKind::rms_offset ? 1.0F : 0.0F;
    }
    [[nodiscard]] static Result<> take_back(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                            TrainingWalk::Matrix of, TrainingWalk::Matrix of_gradient,
                                            TrainingWalk::Matrix in_gradient, bool is_input_added,
                                            TrainingWalk::Vector weight_gradient, TrainingWalk::Vector bias_gradient,
                                            bool is_weight_added) {
        TrainingWalk::ConstMatrix const in = rows_of(of, op);
        TrainingWalk::ConstMatrix const out_gradient = rows_of(of_gradient, op);
        TensorView<double, 1, Host> const workspace{reinterpret_cast<double*>(walk.scratch.data()),
                                                    {norm_backward_workspace(in.extent(0))}};
        auto const weight = walk.weight(number, 0);
        if (is_layer_norm(op.norm().kind))
            return layer_norm_backward(in, weight, out_gradient, in_gradient, is_input_added, weight_gradient,
                                       bias_gradient, is_weight_added, workspace, epsilon_of(walk, op), walk.stream);
        return rms_norm_backward(in, weight, out_gradient, in_gradient, is_input_added, weight_gradient,
                                 is_weight_added, workspace, epsilon_of(walk, op), walk.stream, offset_of(op));
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
