// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/gemm.hpp>
#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/executor/training/run_sums.hpp>
#include <shardwise/kernels/add_row.hpp>
#include <shardwise/kernels/backward/linear.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Products with weights as the tree has them: [outputs, inputs], or transposed.
///
/// Where tensor-parallel ranks share one, each makes some columns of what it makes, by the copy of the weight that is cut for that: a sum
/// over the inputs or outputs is taken by one rank, in the order of a single one.
template <>
struct TrainedOp<LinearOp> : NeedsNoScratch {
    using Matrix = TrainingWalk::Matrix;
    using ConstMatrix = TrainingWalk::ConstMatrix;

    [[nodiscard]] static Result<> forward(TrainingWalk const& walk, Operation const& op, std::size_t number) {
        ConstMatrix const in = walk.value(op.inputs[0]);
        auto const out = walk.value(op.output);
        auto const& trained = walk.block.operations[number];
        if (trained.cut == TrainedCut::inputs) return forward_of_all(walk, op, number);
        auto const bias = walk.weight(number, 1);
        return for_each_part(walk, op, number, false, trained.rows, [&](ConstMatrix weight, WeightRows const& part) {
            auto const to = out.columns(part.column, part.rows.size());
            auto const done = multiply(walk, op, in, weight, trained, to);
            if (!done || bias.empty()) return done;
            return add_row<float>(bias.part(part.rows.begin, part.rows.size()), to, walk.stream);
        });
    }
    [[nodiscard]] static Result<> inputs(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                         GradientStep const& step) {
        auto const gradient = walk.gradient(step.reads);
        auto const to = walk.gradient(step.writes[0]);
        auto const& trained = walk.block.operations[number];
        if (trained.cut == TrainedCut::outputs) return inputs_of_all(walk, op, number, step);
        return input_gradient(walk, op, number, false, gradient, to, step.is_added[0]);
    }
    [[nodiscard]] static Result<> parameters(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                             GradientStep const& step) {
        ConstMatrix const in = walk.value(op.inputs[0]);
        auto const gradient = walk.gradient(step.reads);
        auto const& trained = walk.block.operations[number];
        auto const weight = matrix_of(walk.parameter_gradient(number, 0).data(), op, trained);
        auto const bias = walk.parameter_gradient(number, 1);
        LinearGradientOptions const weight_options{walk.adds(number, 0), walk.multiplies_bf16(op)};
        bool const is_bias_added = walk.adds(number, 1);
        for (auto const& part : trained.rows) {
            ConstMatrix const from = gradient.columns(part.column, part.rows.size());
            auto const to = part_of(weight, trained, part);
            // Turned round, the weight's gradient is that of a product whose sides have changed places.
            auto const done = trained.is_transposed ? linear_weight_gradient(in, from, to, weight_options, walk.stream)
                                                    : linear_weight_gradient(from, in, to, weight_options, walk.stream);
            if (!done) return done;
            if (bias.empty()) continue;
            auto const summed =
                linear_bias_gradient(from, bias.part(part.rows.begin, part.rows.size()), is_bias_added, walk.stream);
            if (!summed) return summed;
        }
        return {};
    }

private:
    /// out = in * weight^T.
    [[nodiscard]] static Result<> multiply(TrainingWalk const& walk, Operation const& op, ConstMatrix in,
                                           ConstMatrix weight, TrainedOperation const& trained, Matrix out) {
        auto const& sums = trained.run_sums;
        GemmOptions const options{.is_b_transposed = !trained.is_transposed,
                                  .rounds_to_bf16 = walk.multiplies_bf16(op)};
        if (walk.sums_as_run && !sums.steps.empty())
            return multiply_by_pieces(in, weight, options, sums, out, walk.scratch, walk.stream);
        return Host::gemm<float>(in, weight, out, options, walk.stream);
    }
    /// Calls visit(weight, rows) for rows of the weight that lie together, or, of a product that is held in a format of its own, for some at a
    /// time, which are decoded for it. With `is_turned` the copy that is cut along the other axis.
    ///
    /// Shapes  weight [rows, inputs] or, transposed, [inputs, rows]
    template <class Visit>
    [[nodiscard]] static Result<> for_each_part(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                                bool is_turned, std::vector<WeightRows> const& parts,
                                                Visit const& visit) {
        auto const& trained = walk.block.operations[number];
        auto const held = walk.parameter(number, 0).held;
        if (held >= 0) {
            auto const& product = is_turned ? walk.held[held].turned : walk.held[held].own;
            return for_each_decoded(
                product, [&](UnitRange rows) { return walk.decoded_rows(op, product.source, rows); },
                [&](ConstMatrix weight, UnitRange rows) {
                    return visit(weight, WeightRows{rows, rows.begin});
                });
        }
        auto const own = walk.weight(number, 0);
        auto const* const from = is_turned ? walk.tensor->turned + trained.turned : own.data();
        auto const elements = is_turned ? trained.turned_elements : own.elements();
        auto const weight = matrix_of(walk.product_weight(op, from, elements), op, trained);
        for (auto const& part : parts) {
            if (auto const done = visit(part_of(weight, trained, part), part); !done) return done;
        }
        return {};
    }
    /// to = gradient * weight, or added to what is there.
    [[nodiscard]] static Result<> input_gradient(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                                 bool is_turned, ConstMatrix gradient, Matrix to, bool is_added) {
        auto const& trained = walk.block.operations[number];
        auto const& parts = is_turned ? trained.whole_rows : trained.rows;
        return for_each_part(walk, op, number, is_turned, parts, [&](ConstMatrix weight, WeightRows const& part) {
            ConstMatrix const from = gradient.columns(part.column, part.rows.size());
            LinearGradientOptions const options{std::exchange(is_added, true), walk.multiplies_bf16(op)};
            if (!trained.is_transposed) return linear_input_gradient(from, weight, to, options, walk.stream);
            return Host::gemm<float>(
                from, weight, to,
                {.is_b_transposed = true, .accumulates = options.is_added, .rounds_to_bf16 = options.rounds_to_bf16},
                walk.stream);
        });
    }
    /// This rank's outputs of all ranks' inputs, and then those of all.
    [[nodiscard]] static Result<> forward_of_all(TrainingWalk const& walk, Operation const& op, std::size_t number) {
        auto const& trained = walk.block.operations[number];
        auto const& tensor = *walk.tensor;
        auto const own = split_units(op.out_features, tensor.place.ranks, tensor.place.rank);
        auto const inputs = walk.shared_value(op.inputs[0]).width;
        Operation turned = op;
        turned.in_features = inputs;
        turned.out_features = own.size();
        auto const bias = walk.weight(number, 1);
        std::vector<WeightRows> const all{{{0, own.size()}, 0}};
        for (std::int64_t first = 0; first < walk.tokens; first += walk.sequence) {
            ConstMatrix const in =
                walk.gather(op.inputs[0], walk.value(op.inputs[0]).rows(first, walk.sequence), tensor.first);
            Matrix const made(tensor.share, {walk.sequence, own.size()});
            auto const done =
                for_each_part(walk, turned, number, true, all, [&](ConstMatrix weight, WeightRows const& part) {
                    return multiply(walk, op, in, weight, trained, made.columns(part.column, part.rows.size()));
                });
            if (!done) return done;
            if (!bias.empty()) {
                auto const added = add_row<float>(bias.part(own.begin, own.size()), made, walk.stream);
                if (!added) return added;
            }
            gather_columns(tensor, made, shared_evenly(op.out_features, tensor.place),
                           walk.value(op.output).rows(first, walk.sequence), walk.stream);
        }
        return {};
    }
    /// This rank's columns of the inputs' gradient, from all ranks' outputs; a reduction brings them together.
    [[nodiscard]] static Result<> inputs_of_all(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                                GradientStep const& step) {
        auto const& tensor = *walk.tensor;
        ConstMatrix const gradient = walk.gather(step.reads, walk.gradient(step.reads), tensor.first);
        auto const own = split_units(op.in_features, tensor.place.ranks, tensor.place.rank);
        auto const to = walk.gradient(step.writes[0]).columns(own.begin, own.size());
        Operation turned = op;
        turned.in_features = own.size();
        turned.out_features = walk.shared_value(op.output).width;
        return input_gradient(walk, turned, number, true, gradient, to, step.is_added[0]);
    }
    template <class T>
    [[nodiscard]] static TensorView<T, 2, Host> matrix_of(T* weight, Operation const& op,
                                                          TrainedOperation const& trained) {
        if (trained.is_transposed) return {weight, {op.in_features, op.out_features}};
        return {weight, {op.out_features, op.in_features}};
    }
    template <class T>
    [[nodiscard]] static TensorView<T, 2, Host> part_of(TensorView<T, 2, Host> const& weight,
                                                        TrainedOperation const& trained, WeightRows const& part) {
        return trained.is_transposed ? weight.columns(part.rows.begin, part.rows.size())
                                     : weight.rows(part.rows.begin, part.rows.size());
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
