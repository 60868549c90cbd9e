// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/activation.hpp>
#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/executor/routes.hpp>
#include <shardwise/kernels/combine_rows.hpp>

#include <algorithm>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Each token's sum over its experts; under Fast the tensor-parallel ranks' summands of it are added. Where other ranks have some
/// of the experts, rows travel to them here and back, and what stands between the router and this is computed on the way.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<CombineOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>& walk, Operation const& op, std::size_t number) {
        auto const out = walk.view(op.output);
        if (auto const done = sum(walk, op, number); !done) return done;
        if constexpr (!Policy::has_fixed_tree) {
            TensorView<float, 1, Backend> const all(out.data(), {out.elements()});
            submit_all_reduce(walk.comm, all, ReduceOp::sum, walk.stream);
        }
        return {};
    }

private:
    using ConstMatrix = TensorView<float const, 2, Backend>;

    template <Communicator C>
    [[nodiscard]] static Result<> sum(BlockWalk<Backend, Policy, C>& walk, Operation const& op, std::size_t number) {
        if constexpr (DealsExperts<Backend>) {
            if (walk.exchange != nullptr) return exchange(walk, op, number);
        }
        return combine(walk, op, number);
    }
    template <Communicator C>
    [[nodiscard]] static Result<> combine(BlockWalk<Backend, Policy, C>& walk, Operation const& op,
                                          std::size_t number) {
        auto const table = order_rows(walk, op, number, RoutingOrder::row_of_pair);
        if (!table) return table.error();
        Routes<Backend> const chosen(walk.view(op.inputs[1]));
        return combine_rows(ConstMatrix(walk.view(op.inputs[0])),
                            TensorView<std::int32_t const, 1, Backend>(table->order), ConstMatrix(chosen.weights),
                            walk.view(op.output), walk.stream);
    }

    template <Communicator C>
    [[nodiscard]] static Result<> exchange(BlockWalk<Backend, Policy, C>& walk, Operation const& op,
                                           std::size_t number) {
        auto const& operations = walk.block.program->operations();
        auto first = number;
        while (first > 0 && walk.is_routed(operations[first - 1])) --first;
        Routes<Backend> const chosen(walk.view(op.inputs[1]));
        using Matrix = typename BlockWalk<Backend, Policy, C>::Matrix;
        using Stream = typename Backend::Stream;
        auto const expert = [&](std::int64_t at, ConstMatrix rows, Matrix results, Stream&) -> Result<> {
            for (std::int64_t begin = 0; begin < rows.extent(0); begin += walk.step.routed_room) {
                auto const count = std::min(walk.step.routed_room, rows.extent(0) - begin);
                auto const done =
                    compute_expert(walk, {first, number}, at, rows.rows(begin, count), results.rows(begin, count));
                if (!done) return done;
            }
            return {};
        };
        return walk.exchange->forward(walk.view(operations[first].inputs[0]), chosen.ids, chosen.weights,
                                      walk.view(op.output), expert, walk.stream, far_deadline());
    }

    struct Between {
        std::size_t first = 0;
        std::size_t last = 0;
    };
    /// One expert's rows through the operations [first, last): values between them lie where the arena has those of the rank's
    /// own rows.
    template <Communicator C>
    [[nodiscard]] static Result<> compute_expert(BlockWalk<Backend, Policy, C>& walk, Between between,
                                                 std::int64_t expert, ConstMatrix in,
                                                 TensorView<float, 2, Backend> out) {
        walk.values.routed_rows = in.extent(0);
        std::int32_t const rows[] = {0, static_cast<std::int32_t>(in.extent(0))};
        for (auto i = between.first; i < between.last; ++i) {
            auto const& op = walk.block.program->operations()[i];
            auto const& held = walk.held(i);
            bool const reads_tokens = walk.values.of(op.inputs[0]).rows == Rows::tokens;
            ConstMatrix const from = reads_tokens ? in : walk.view(op.inputs[0]);
            Result<> done;
            if (auto const* const columns = std::get_if<ExpertColumns<Backend>>(&held)) {
                auto const& layer = columns->experts[static_cast<std::size_t>(expert)];
                done = layer.forward(from, walk.view(op.output), walk.stream);
            } else if (auto const* const sum = std::get_if<ExpertRows<Backend, Policy>>(&held)) {
                done = sum->forward({expert, rows}, from, out, walk.step.scratch, walk.comm, walk.stream);
            } else {
                done = ExecutedOp<ActivationOp, Backend, Policy>::run(walk, op, i);
            }
            if (!done) return done;
        }
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
