// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/executor/ops/load_experts.hpp>
#include <shardwise/executor/routes.hpp>
#include <shardwise/executor/weighed_rows.hpp>
#include <shardwise/kernels/take_rows.hpp>

#include <concepts>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// One linear layer of every expert, each with all of its rows at once; experts without rows are not looked at.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<ExpertsOp, Backend, Policy> {
    using Held = HeldOperation<Backend, Policy>;

    [[nodiscard]] static Result<Held> load(OperationLoader<Backend> const& from, Operation const& op,
                                           BlockBody const& body, BlockCut const& cut) {
        ExpertLoader<Backend, Policy> const experts(from, op);
        if (body.values()[static_cast<std::size_t>(op.output)].spread == Spread::partial) {
            auto rows = experts.load_rows(*cut.pieces[static_cast<std::size_t>(op.inputs[0])]);
            if (!rows) return rows.error();
            return Held{std::move(*rows)};
        }
        auto columns = experts.load_columns(cut.columns[static_cast<std::size_t>(op.output)]);
        if (!columns) return columns.error();
        return Held{std::move(*columns)};
    }

    [[nodiscard]] static Result<> count(MemoryTally& to, CountedBlock const& block, Operation const& op,
                                        ParameterFormat held) {
        auto const own = own_experts(op, block.experts).size();
        auto const is_partial = block.value(op.output).spread == Spread::partial;
        auto const inputs = is_partial
                                ? block.pieces(op.inputs[0]).inputs_of_rank(block.place.ranks, block.place.rank).size()
                                : block.cut.width(op.output);
        if (inputs > 0 && !(is_partial && Policy::has_fixed_tree))
            to.add_weights(ExpertTable<Backend>::bytes_for(own).count());
        return to.template add_product<Backend, Policy>(block, op, held, own,
                                                        block.limits.step_tokens * block.experts.ranks);
    }

    [[nodiscard]] static std::int64_t scratch(CountedBlock const& block, Operation const& op, std::size_t) {
        auto const chosen = op.routing().experts_per_token;
        // Gathered rows of one expert, which every token may have chosen; where they are weighed, those of all experts.
        if (block.value(op.output).spread != Spread::partial) {
            auto const rows = block.limits.step_tokens * (op.routing().weighs_inputs ? chosen : 1);
            if (op.routing().weighs_inputs && block.experts.ranks > 1)
                return sent_floats(rows, op.in_features, op.routing().experts, block.limits.activations);
            return floats_of(rows * op.in_features, block.limits.activations);
        }
        ExpertRows<Backend, Policy> const rows(block.pieces(op.inputs[0]), block.place, op.out_features);
        return rows.workspace(block.limits.step_tokens * chosen, block.limits.activations);
    }

    /// Rows of which each reads its expert's weight, so that nobody waits for how many each expert has. As computed, not measured: one
    /// product for each of 128 experts takes longer to launch than weights that a cache holds take to be read again.
    static constexpr std::int64_t few_rows = 512;

    /// Whether a step puts the same into a stream whichever experts are chosen, where they have at most few_rows.
    [[nodiscard]] static bool repeats(Held const& held) {
        if constexpr (HasHostMemory<Backend>) {
            return false;
        } else {
            return has_table(held);
        }
    }

    /// A row for each of a token's experts of a row for each token, or the same.
    static constexpr bool changes_rows = true;

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        auto const* const columns = std::get_if<ExpertColumns<Backend>>(&op.held);
        if (columns == nullptr)
            return std::get<ExpertRows<Backend, Policy>>(op.held).check_columns(op.inputs[0].width, op.output.width);
        for (auto const& layer : columns->experts) {
            // Those of other ranks are not here.
            if (layer.inputs() == 0) continue;
            auto const fits = layer.check_columns(op.inputs[0].width, op.output.width);
            if (!fits) return fits;
        }
        return {};
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        if (op.op->routing().weighs_inputs) return multiply_weighed(walk, op);
        auto const table = order_rows(walk, op, RoutingOrder::token_of_row);
        if (!table) return table.error();
        if constexpr (!HasHostMemory<Backend>) {
            if (walk.routed_rows <= few_rows && has_table(op.held)) return multiply_few(walk, op, *table);
        }
        auto const first = count_rows(walk, op.op->inputs[1], *table);
        if (!first) return first.error();
        using ConstMatrix = typename BlockWalk<Backend, Policy, C, T>::ConstMatrix;
        auto const* const columns = std::get_if<ExpertColumns<Backend>>(&op.held);
        if (columns == nullptr) {
            return std::get<ExpertRows<Backend, Policy>>(op.held).forward_bound(
                {0, *first}, ConstMatrix(walk.view(op.inputs[0])), walk.view(op.output), walk.step.scratch, walk.comm,
                walk.stream);
        }
        // Rows in the order of tokens go to their experts, one expert's at a time.
        using Matrix = typename BlockWalk<Backend, Policy, C, T>::Matrix;
        ConstMatrix const in = walk.view(op.inputs[0]);
        auto const out = walk.view(op.output);
        auto& stream = walk.stream;
        return ExpertRuns{0, *first}.for_each({0, out.extent(0)}, [&](std::size_t expert, UnitRange rows) {
            auto const count = rows.size();
            auto const& layer = columns->experts[expert];
            // Of one token all read the row where it lies.
            if (in.extent(0) == 1) return layer.forward_bound(in, out.rows(rows.begin, count), stream);
            Matrix const gathered(reinterpret_cast<T*>(walk.step.scratch.data()), {count, in.extent(1)});
            auto const done = gather(TensorView<std::int32_t const, 1, Backend>(table->order.part(rows.begin, count)),
                                     in, gathered, stream);
            return done ? layer.forward_bound(ConstMatrix(gathered), out.rows(rows.begin, count), stream) : done;
        });
    }

private:
    template <class T>
    [[nodiscard]] static Result<> gather(TensorView<std::int32_t const, 1, Backend> tokens,
                                         TensorView<T const, 2, Backend> in, TensorView<T, 2, Backend> out,
                                         typename Backend::Stream& stream) {
        if constexpr (std::same_as<Backend, Host>)
            return take_rows_bound<T>(tokens, in, out, stream);
        else
            return take_rows<T>(tokens, in, out, stream);
    }
    /// The same where each token's row is multiplied by an expert's weight before the product (llama4).
    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> multiply_weighed(BlockWalk<Backend, Policy, C, T>& walk,
                                                   BoundOperation<Backend, Policy> const& op) {
        auto const table = order_rows(walk, op, RoutingOrder::row_of_pair);
        if (!table) return table.error();
        Routes<Backend> const routes(walk.floats(op.inputs[1]));
        TensorView<T const, 2, Backend> const in = walk.view(op.inputs[0]);
        TensorView<T, 2, Backend> const weighed(reinterpret_cast<T*>(walk.step.scratch.data()),
                                                {walk.routed_rows, in.extent(1)});
        TensorView<T const, 2, Backend> const rows = weighed;
        TensorView<std::int32_t const, 1, Backend> const places = table->order;
        if (auto const done = weigh_routed(walk, in, routes, places, weighed); !done) return done;
        auto const out = walk.view(op.output);
        auto const& columns = std::get<ExpertColumns<Backend>>(op.held);
        if constexpr (!HasHostMemory<Backend>) {
            if (walk.routed_rows <= few_rows && has_table(op.held))
                return columns.table.multiply(rows, TensorView<std::int32_t const, 1, Backend>{}, table->first, out,
                                              walk.stream);
        }
        auto const first = count_rows(walk, op.op->inputs[1], *table);
        if (!first) return first.error();
        return ExpertRuns{0, *first}.for_each({0, out.extent(0)}, [&](std::size_t expert, UnitRange range) {
            return columns.experts[expert].forward_bound(rows.rows(range.begin, range.size()),
                                                         out.rows(range.begin, range.size()), walk.stream);
        });
    }
    [[nodiscard]] static bool has_table(Held const& held) {
        if (auto const* const columns = std::get_if<ExpertColumns<Backend>>(&held)) return columns->table.multiplies();
        return std::get<ExpertRows<Backend, Policy>>(held).table().multiplies();
    }
    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> multiply_few(BlockWalk<Backend, Policy, C, T>& walk,
                                               BoundOperation<Backend, Policy> const& op,
                                               RoutingTable<Backend> const& table) {
        auto const* const columns = std::get_if<ExpertColumns<Backend>>(&op.held);
        auto const& factors =
            columns != nullptr ? columns->table : std::get<ExpertRows<Backend, Policy>>(op.held).table();
        TensorView<std::int32_t const, 1, Backend> tokens;
        if (columns != nullptr) tokens = table.order;
        TensorView<T const, 2, Backend> const in = walk.view(op.inputs[0]);
        return factors.multiply(in, tokens, table.first, walk.view(op.output), walk.stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
