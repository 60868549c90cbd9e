// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/layer_norm.hpp>
#include <shardwise/kernels/residual_norm.hpp>
#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/parallel/sharded_norm.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<NormOp, Backend, Policy> {
    [[nodiscard]] static Result<HeldOperation<Backend, Policy>> load(OperationLoader<Backend> const& from,
                                                                     Operation const& op, BlockBody const& body,
                                                                     BlockCut const& cut) {
        HeldNorm<Backend> norm;
        norm.share = cut.norms[static_cast<std::size_t>(&op - body.operations().begin())];
        norm.width = op.in_features;
        norm.epsilon =
            static_cast<float>(op.norm().epsilon > 0.0 ? op.norm().epsilon : from.model().config.norm_epsilon);
        norm.offset = op.norm().kind == NormKind::rms_offset ? 1.0F : 0.0F;
        norm.is_layer = is_layer_norm(op.norm().kind);
        norm.is_first_part = op.norm().is_first_part;
        if (auto const checked = check_heads(op, norm, cut.width(op.inputs[0])); !checked) return checked.error();
        auto const made = static_cast<std::size_t>(op.output);
        norm.has_head_weights = op.norm().has_head_weights;
        auto const whole = op.norm().has_head_weights ? body.values()[made].width : op.in_features;
        std::optional<std::span<UnitRange const>> own;
        if (spans_ranks(op, body.values()[made]) || op.norm().has_head_weights) own = cut.columns[made];
        bool const is_named = op.norm().has_head_weights && op.parameters[0].find('*') != std::string_view::npos;
        auto values = is_named ? named_weights(from, op, *own) : from.floats(op.parameters[0], whole, own);
        if (!values) return values.error();
        // A norm without a weight (llama4's of queries and keys).
        if (op.parameters[0].empty()) values->assign(static_cast<std::size_t>(op.in_features), 1.0F);
        // What a layer norm adds to its weight is in the weight itself: its kernel adds nothing.
        auto const in_weight = has_offset(op.norm().kind) && norm.offset == 0.0F ? 1.0F : 0.0F;
        if (auto const offset = in_weight - stored_norm_offset(op.norm().kind, from.is_gguf()); offset != 0.0F) {
            for (auto& value : *values) value += offset;
        }
        auto weight = hold_floats<Backend>(from.context(), *values);
        if (!weight) return weight.error();
        norm.weight = std::move(*weight);
        auto bias = from.hold_vector(op.parameters[1], op.in_features);
        if (!bias) return bias.error();
        norm.bias = std::move(*bias);
        return HeldOperation<Backend, Policy>{std::move(norm)};
    }

    [[nodiscard]] static Result<> count(MemoryTally& to, CountedBlock const& block, Operation const& op,
                                        ParameterFormat) {
        if (op.parameters[0].empty()) to.add_weights(4 * op.in_features);
        bool const is_cut = op.norm().has_head_weights || spans_ranks(op, block.value(op.output));
        to.add_vector(op, 0, is_cut ? block.cut.width(op.output) : op.in_features);
        to.add_vector(op, 1, op.in_features);
        return {};
    }

    /// Of the sums over ranks; BlockCut says what they are.
    [[nodiscard]] static std::int64_t scratch(CountedBlock const& block, Operation const&, std::size_t number) {
        auto const& share = block.cut.norms[number];
        if (!share) return 0;
        auto const rows = block.limits.step_tokens;
        return HasHostMemory<Backend> ? share->workspace(rows) : share->device_workspace(rows);
    }

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        using Row = TensorView<float const, 2, Backend>;
        auto const& norm = std::get<HeldNorm<Backend>>(op.held);
        if (norm.share) return {};
        if (norm.has_head_weights) return check_head_weights(op, norm);
        auto const name = norm.is_layer ? std::string_view("layer_norm") : std::string_view("rms_norm");
        auto in = op.inputs[0];
        auto out = op.output;
        if (in.width != out.width) return check_rows(name, Row(row_of<Backend>(in)), in.width, row_of<Backend>(out));
        // What is left of the row stays; heads are rows.
        in.width = out.width = norm.is_first_part ? std::min(norm.width, in.width) : norm.width;
        auto const fits = check_rows(name, Row(row_of<Backend>(in)), norm.weight.size(), row_of<Backend>(out));
        if (!fits || !norm.is_layer) return fits;
        return check_bias(name, TensorView<float const, 1, Backend>(norm.bias.view()), norm.width);
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        using Matrix = typename BlockWalk<Backend, Policy, C, T>::Matrix;
        using Vector = typename BlockWalk<Backend, Policy, C, T>::Vector;
        auto const& norm = std::get<HeldNorm<Backend>>(op.held);
        Vector const weight = norm.weight.view();
        auto in = walk.view(op.inputs[0]);
        auto out = walk.view(op.output);
        if (norm.share) {
            if constexpr (HasHostMemory<Backend>) {
                return sharded_rms_norm(in, *norm.share, weight, out, norm.epsilon, walk.step.scratch, walk.comm,
                                        walk.stream, norm.offset);
            } else {
                using ConstMatrix = typename BlockWalk<Backend, Policy, C, T>::ConstMatrix;
                return sharded_rms_norm<T>(ConstMatrix(in), *norm.share, weight, out, norm.epsilon, walk.step.scratch,
                                           walk.comm, walk.stream, norm.offset);
            }
        }
        if (norm.is_first_part) {
            in = in.columns(0, norm.width);
            out = out.columns(0, norm.width);
        } else if (norm.has_head_weights || op.inputs[0].width != norm.width) {
            // A norm of each head: heads are rows.
            auto const heads = op.inputs[0].width / norm.width;
            in = Matrix(in.data(), {in.extent(0) * heads, norm.width});
            out = Matrix(out.data(), {out.extent(0) * heads, norm.width});
        }
        if (op.addend.width > 0) {
            using ConstMatrix = typename BlockWalk<Backend, Policy, C, T>::ConstMatrix;
            ConstMatrix const addend = walk.view(op.addend);
            if constexpr (std::same_as<Backend, Host>)
                return residual_norm_bound<T>(addend, in, weight, out, norm.epsilon, walk.stream, norm.offset);
            else
                return residual_norm<T>(addend, in, weight, out, norm.epsilon, walk.stream, norm.offset);
        }
        // A rank without heads.
        if (in.empty()) return {};
        return run_rows<T>(walk, norm, in, {weight.data(), {weight.elements() / norm.width, norm.width}}, out);
    }

private:
    /// The norm of rows, which take rows of weights in turn.
    template <ActivationElement T, class Walk>
    [[nodiscard]] static Result<> run_rows(Walk& walk, HeldNorm<Backend> const& norm,
                                           TensorView<T const, 2, Backend> in,
                                           TensorView<float const, 2, Backend> weights, TensorView<T, 2, Backend> out) {
        typename Walk::Vector const bias = norm.bias.view();
        if constexpr (std::same_as<Backend, Host>) {
            if (norm.is_layer) return layer_norm_bound<T>(in, weights, bias, out, norm.epsilon, walk.stream);
            return rms_norm_bound<T>(in, weights, out, norm.epsilon, walk.stream, norm.offset);
        } else {
            if (norm.has_head_weights && norm.is_layer)
                return layer_norm<T>(in, weights, out, norm.epsilon, walk.stream);
            if (norm.has_head_weights) return rms_norm<T>(in, weights, out, norm.epsilon, walk.stream, norm.offset);
            typename Walk::Vector const weight(weights.data(), {weights.elements()});
            if (norm.is_layer) return layer_norm<T>(in, weight, bias, out, norm.epsilon, walk.stream);
            return rms_norm<T>(in, weight, out, norm.epsilon, walk.stream, norm.offset);
        }
    }

    /// The weights of heads that have names of their own: those of the rank's, one after another.
    [[nodiscard]] static Result<std::vector<float>> named_weights(OperationLoader<Backend> const& from,
                                                                  Operation const& op,
                                                                  std::span<UnitRange const> columns) {
        std::vector<float> out;
        for (auto const& range : columns) {
            for (auto head = range.begin / op.in_features; head * op.in_features < range.end; ++head) {
                auto const stored = from.find(op.parameters[0], head);
                if (!stored) return stored.error();
                auto const values = from.parameters().floats(*stored, op.in_features);
                if (!values) return values.error();
                out.insert(out.end(), values->begin(), values->end());
            }
        }
        return out;
    }
    /// As many weights as columns, and columns of whole heads.
    [[nodiscard]] static Result<> check_head_weights(BoundOperation<Backend, Policy> const& op,
                                                     HeldNorm<Backend> const& norm) {
        auto const width = op.inputs[0].width;
        bool const fits = width == op.output.width && norm.width >= 1 && width % norm.width == 0;
        if (fits && norm.weight.size() == width) return {};
        return Error{ErrorCode::shape_mismatch}
            .in("norm")
            .because("does not have a weight for each head")
            .got(norm.weight.size())
            .expected(width);
    }
    /// What each row of heads is normalised by needs whole heads.
    [[nodiscard]] static Result<> check_heads(Operation const& op, HeldNorm<Backend> const& norm, std::int64_t width) {
        if (norm.share || norm.is_first_part || width == norm.width) return {};
        if (norm.width >= 1 && width % norm.width == 0) return {};
        return Error{ErrorCode::shape_mismatch}
            .in("norm")
            .at(op.parameters[0])
            .because("a rank's columns are not whole heads of it")
            .got(width)
            .expected(norm.width);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
