// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/executor/stored_rows.hpp>
#include <shardwise/kernels/soft_cap.hpp>
#include <shardwise/model/low_rank_operations.hpp>
#include <shardwise/parallel/vocab_head.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A product whose outputs or inputs are sharded; logits are put together on every rank. What expands the latent of an
/// attention is held by heads, and the attention computes with it.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<LinearOp, Backend, Policy> {
    using Held = HeldOperation<Backend, Policy>;
    using Loader = OperationLoader<Backend>;

    [[nodiscard]] static Result<Held> load(Loader const& from, Operation const& op, BlockBody const& body,
                                           BlockCut const& cut) {
        auto const stored = from.find(op.parameters[0]);
        if (!stored) return stored.error();
        if (auto const* const attention = attention_that_expands(op.output, body))
            return load_latent(from, op, *stored, attention->attention(), cut);
        if (body.values()[static_cast<std::size_t>(op.output)].spread == Spread::partial)
            return load_row(from, op, *stored, cut);
        return load_column(from, op, *stored, body, cut);
    }

    [[nodiscard]] static Result<> count(MemoryTally& to, CountedBlock const& block, Operation const& op,
                                        ParameterFormat held) {
        if (auto const* const attention = attention_that_expands(op.output, block.body))
            return count_latent(to, block, attention->attention(), held);
        auto const& limits = block.limits;
        auto const rows = block.value(op.output).rows == Rows::sequences ? limits.sequences : limits.step_tokens;
        return to.template add_product<Backend, Policy>(block, op, held, 1, rows);
    }

    [[nodiscard]] static std::int64_t scratch(CountedBlock const& block, Operation const& op, std::size_t) {
        auto const& made = block.value(op.output);
        std::int64_t most = 0;
        if (made.spread == Spread::partial && Policy::has_fixed_tree) {
            ProductTree<Backend> const sum(block.pieces(op.inputs[0]), op.out_features, block.place);
            auto const tokens = block.limits.step_tokens;
            most = sum.max_workspace(tokens) + rounded_sum_floats(tokens, op.out_features, block.limits.activations);
        }
        auto const vocabulary = block.model.config.vocab_size;
        if (op.out_features != vocabulary) return most;
        auto const rows = made.rows == Rows::sequences ? block.limits.sequences : block.limits.step_tokens;
        return std::max(most, gather_logits_workspace(rows, vocabulary));
    }

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        return std::visit(
            [&](auto const& held) -> Result<> {
                if constexpr (requires { held.check_columns(0, 0); })
                    return held.check_columns(op.inputs[0].width, op.output.width);
                return {};
            },
            op.held);
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        // Its keys and values are never made.
        if (std::holds_alternative<LatentHeads<Backend>>(op.held)) return {};
        TensorView<T const, 2, Backend> const in = walk.view(op.inputs[0]);
        auto const out = walk.view(op.output);
        if (auto const* const row = std::get_if<RowLinear<Backend, Policy>>(&op.held))
            return row->forward_bound(in, out, walk.step.scratch, walk.comm, walk.stream);
        auto const scores = walk.floats(op.output);
        if (auto const* const column = std::get_if<ColumnLinear<Backend>>(&op.held)) {
            return op.output.is_in_float ? column->forward_bound(in, scores, walk.stream)
                                         : column->forward_bound(in, out, walk.stream);
        }
        auto const& logits = std::get<HeldLogits<Backend>>(op.held);
        if (auto const done = logits.product.forward_bound(in, scores, walk.stream); !done) return done;
        if (logits.soft_cap > 0.0F) {
            TensorView<float const, 2, Backend> const flat = scores;
            auto const bent = bend(flat, scores, logits.soft_cap, walk.stream);
            if (!bent) return bent;
        }
        return gather_logits_bound<Backend>(scores, walk.state.logits, walk.step.scratch, walk.comm, walk.stream);
    }

private:
    [[nodiscard]] static Result<> bend(TensorView<float const, 2, Backend> in, TensorView<float, 2, Backend> out,
                                       float cap, typename Backend::Stream& stream) {
        if constexpr (std::same_as<Backend, Host>)
            return soft_cap_bound(in, out, cap, stream);
        else
            return soft_cap(in, out, cap, stream);
    }
    [[nodiscard]] static Error named(Error error, Loader const& from, Operation const& op) {
        return error.at(from.name_of(op.parameters[0]));
    }

    /// What a model puts out in fp32, which only the last block has.
    [[nodiscard]] static bool makes_logits(Operation const& op, BlockBody const& body) {
        auto const& made = body.values()[static_cast<std::size_t>(op.output)];
        auto const& last = body.values()[static_cast<std::size_t>(body.operations().back().output)];
        return made.is_fp32 && last.is_fp32 && made.width == last.width;
    }

    [[nodiscard]] static Result<Held> load_column(Loader const& from, Operation const& op,
                                                  StoredParameter const& stored, BlockBody const& body,
                                                  BlockCut const& cut) {
        // A half of an adapter has the rows of the checkpoint that it was trained on.
        bool const is_half = is_low_rank_half(op.parameters[0]);
        auto const rows =
            stored_rows(op, from.model(), from.is_gguf() && !is_half, cut.columns[static_cast<std::size_t>(op.output)]);
        auto matrix = from.parameters().matrix(stored, {.outputs = op.out_features,
                                                        .inputs = op.in_features,
                                                        .is_turned = stored.tensor->is_transposed,
                                                        .rows = rows});
        if (!matrix) return matrix.error();
        matrix->read_once();
        auto bias = from.hold_briefly(op.parameters[1], op.out_features, rows);
        if (!bias) return bias.error();
        Buffer<float, Backend> const& own_bias = *bias;
        UnitRange const own[] = {{0, matrix->source().outputs}};
        auto column = ColumnLinear<Backend>::create(from.context(), matrix->source(), own, own_bias.view(),
                                                    Policy::has_fixed_tree);
        if (!column) return named(column.error(), from, op);
        if (!makes_logits(op, body)) return Held{std::move(*column)};
        return Held{HeldLogits<Backend>{std::move(*column), op.out_features, from.place(),
                                        static_cast<float>(from.model().config.logit_softcap)}};
    }
    [[nodiscard]] static Result<Held> load_row(Loader const& from, Operation const& op, StoredParameter const& stored,
                                               BlockCut const& cut) {
        auto const& place = from.place();
        auto const& pieces = *cut.pieces[static_cast<std::size_t>(op.inputs[0])];
        auto const own = pieces.inputs_of_rank(place.ranks, place.rank);
        auto matrix = from.parameters().matrix(stored, {.outputs = op.out_features,
                                                        .inputs = op.in_features,
                                                        .is_turned = stored.tensor->is_transposed,
                                                        .columns = own});
        if (!matrix) return matrix.error();
        matrix->read_once();
        auto bias = from.hold_briefly(op.parameters[1], op.out_features);
        if (!bias) return bias.error();
        Buffer<float, Backend> const& whole = *bias;
        auto row =
            RowLinear<Backend, Policy>::create(from.context(), matrix->source(), pieces, place, whole.view(), own);
        if (!row) return named(row.error(), from, op);
        return Held{std::move(*row)};
    }
    [[nodiscard]] static Result<Held> load_latent(Loader const& from, Operation const& op,
                                                  StoredParameter const& stored, AttentionShape const& shape,
                                                  BlockCut const& cut) {
        auto const own = cut.heads->query;
        auto const rows_of_head = shape.heads > 0 ? op.out_features / shape.heads : 0;
        UnitRange const rows[] = {{own.begin * rows_of_head, own.end * rows_of_head}};
        auto const matrix =
            from.parameters().matrix(stored, {.outputs = op.out_features, .inputs = op.in_features, .rows = rows});
        if (!matrix) return matrix.error();
        auto local = shape;
        local.heads = own.size();
        auto heads = LatentHeads<Backend>::create(from.context(), matrix->source(), local, {0, own.size()});
        if (!heads) return named(heads.error(), from, op);
        return Held{std::move(*heads)};
    }
    [[nodiscard]] static Result<> count_latent(MemoryTally& to, CountedBlock const& block, AttentionShape const& shape,
                                               ParameterFormat held) {
        auto const heads = block.cut.heads->query.size();
        auto const bytes = latent_weight_bytes<Backend>(held.format, shape, heads, held.group);
        if (!bytes) return bytes.error();
        to.add_packed(bytes->count());
        if (heads == 0) return {};
        to.formats.push_back(turned_format(held.format));
        to.formats.push_back(format_held<Backend>(held.format, shape.latent - shape.rotary, held.group));
        if (!HasHostMemory<Backend>) return {};
        auto const kernel = product_kernel(held.format, block.isa, block.limits.product_activations);
        auto const row_bytes = prepared_row_bytes(kernel, UnitRange{0, shape.latent - shape.rotary});
        to.prepared = std::max(to.prepared, prepared_buffer_bytes(kernel, row_bytes, latent_rows));
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
