// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/activation.hpp>
#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/executor/routes.hpp>
#include <shardwise/executor/weighed_rows.hpp>
#include <shardwise/kernels/combine_rows.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Each token's sum over its experts; under Fast the tensor-parallel ranks' summands of it are added. Where other ranks have some
/// of the experts, rows travel to them here and back, and what stands between the router and this is computed on the way.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<CombineOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    /// A row for each token of a row for each of its experts.
    static constexpr bool changes_rows = true;

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        TensorView<float const, 2, Backend> const in = row_of<Backend>(op.inputs[0]);
        return check_rows("combine_rows", in, in.extent(1), row_of<Backend>(op.output));
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        auto const out = walk.view(op.output);
        if (auto const done = sum(walk, op); !done) return done;
        if constexpr (!Policy::has_fixed_tree) {
            TensorView<T, 1, Backend> const all(out.data(), {out.elements()});
            submit_all_reduce(walk.comm, all, ReduceOp::sum, walk.stream);
        }
        return {};
    }

private:
    using Bound = BoundOperation<Backend, Policy>;

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> sum(BlockWalk<Backend, Policy, C, T>& walk, Bound const& op) {
        return walk.exchange != nullptr ? exchange(walk, op) : combine(walk, op);
    }
    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> combine(BlockWalk<Backend, Policy, C, T>& walk, Bound const& op) {
        auto const table = order_rows(walk, op, RoutingOrder::row_of_pair);
        if (!table) return table.error();
        Routes<Backend> const chosen(walk.floats(op.inputs[1]));
        using ConstMatrix = typename BlockWalk<Backend, Policy, C, T>::ConstMatrix;
        ConstMatrix const rows = walk.view(op.inputs[0]);
        TensorView<std::int32_t const, 1, Backend> const places = table->order;
        TensorView<float const, 2, Backend> const weights = chosen.weights;
        if constexpr (std::same_as<Backend, Host>)
            return combine_rows_bound(rows, places, weights, walk.view(op.output), walk.stream);
        else
            return combine_rows(rows, places, weights, walk.view(op.output), walk.stream);
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> exchange(BlockWalk<Backend, Policy, C, T>& walk, Bound const& op) {
        std::span<Bound const> const operations(walk.block.operations);
        auto const number = static_cast<std::size_t>(&op - operations.data());
        auto first = number;
        while (first > 0 && walk.is_routed(operations[first - 1])) --first;
        auto const between = operations.subspan(first, number - first);
        Routes<Backend> const chosen(walk.floats(op.inputs[1]));
        using Matrix = typename BlockWalk<Backend, Policy, C, T>::Matrix;
        using ConstMatrix = typename BlockWalk<Backend, Policy, C, T>::ConstMatrix;
        using Stream = typename Backend::Stream;
        auto const expert = [&](std::int64_t at, ConstMatrix rows, Matrix results, Stream&) -> Result<> {
            for (std::int64_t begin = 0; begin < rows.extent(0); begin += walk.step.routed_room) {
                auto const count = std::min(walk.step.routed_room, rows.extent(0) - begin);
                auto const done =
                    compute_expert(walk, between, at, rows.rows(begin, count), results.rows(begin, count));
                if (!done) return done;
            }
            return {};
        };
        auto const& experts = between.front();
        ConstMatrix in = walk.view(experts.inputs[0]);
        bool const is_weighed = experts.op->routing().weighs_inputs;
        if (is_weighed) {
            auto const weighed = weigh_sent(walk, experts, chosen);
            if (!weighed) return weighed.error();
            in = *weighed;
        }
        return walk.exchange->forward(in, chosen.ids, chosen.weights, walk.view(op.output), expert, walk.stream,
                                      far_deadline(), is_weighed ? ExpertInput::of_pairs : ExpertInput::of_tokens);
    }

    /// The rows that are sent where experts' inputs are weighed, in the scratch, which has them until they have gone.
    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<TensorView<T const, 2, Backend>> weigh_sent(BlockWalk<Backend, Policy, C, T>& walk,
                                                                            Bound const& experts,
                                                                            Routes<Backend> const& chosen) {
        TensorView<T const, 2, Backend> const in = walk.view(experts.inputs[0]);
        auto const pairs = chosen.ids.elements();
        auto* const memory = walk.step.scratch.data();
        TensorView<T, 2, Backend> const rows(reinterpret_cast<T*>(memory), {pairs, in.extent(1)});
        if (pairs > 0) {
            auto* const behind = memory + floats_of(rows.elements(), walk.step.activations);
            RoutingTable<Backend> const table(reinterpret_cast<std::int32_t*>(behind), pairs,
                                              experts.op->routing().experts);
            TensorView<std::int32_t const, 2, Backend> const ids = chosen.ids;
            auto done = order_experts(ids, RoutingOrder::row_of_pair, table.order, table.first, walk.stream);
            TensorView<std::int32_t const, 1, Backend> const places = table.order;
            if (done) done = weigh_routed(walk, in, chosen, places, rows);
            if (!done) return done.error();
        }
        return TensorView<T const, 2, Backend>(rows);
    }

    /// One expert's rows through the operations `between`: values between them lie where the arena has those of the rank's
    /// own rows.
    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> compute_expert(BlockWalk<Backend, Policy, C, T>& walk, std::span<Bound const> between,
                                                 std::int64_t expert, TensorView<T const, 2, Backend> in,
                                                 TensorView<T, 2, Backend> out) {
        using ConstMatrix = TensorView<T const, 2, Backend>;
        walk.routed_rows = in.extent(0);
        std::int32_t const rows[] = {0, static_cast<std::int32_t>(in.extent(0))};
        for (auto const& op : between) {
            bool const reads_tokens = op.inputs[0].rows == Rows::tokens;
            ConstMatrix const from = reads_tokens ? in : walk.view(op.inputs[0]);
            Result<> done;
            if (auto const* const columns = std::get_if<ExpertColumns<Backend>>(&op.held)) {
                auto const& layer = columns->experts[static_cast<std::size_t>(expert)];
                done = layer.forward_bound(from, walk.view(op.output), walk.stream);
            } else if (auto const* const sum = std::get_if<ExpertRows<Backend, Policy>>(&op.held)) {
                done = sum->forward_bound({expert, rows}, from, out, walk.step.scratch, walk.comm, walk.stream);
            } else {
                done = ExecutedOp<ActivationOp, Backend, Policy>::run(walk, op);
            }
            if (!done) return done;
        }
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
