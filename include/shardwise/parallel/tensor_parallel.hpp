// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/input_pieces.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/op/head_share.hpp>
#include <shardwise/parallel/column_linear.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/policy.hpp>
#include <shardwise/parallel/row_linear.hpp>
#include <shardwise/parallel/weight_slice.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Query, key and value projections as a checkpoint holds them: one weight [queries, then keys, then values; inputs].
struct PackedQkv {
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t key_dim = 0;
    std::int64_t value_dim = 0;
};

/// One rank of a tensor-parallel group: cuts weights and makes the layers that hold its shares.
///
/// A pair of layers shares one cut: `column_linear` of some pieces makes the inputs of `row_linear` of the same. The ranks'
/// shares of heads, columns and vocabulary are those of a ParameterShard: with the grain of a sum where leaves of a fixed tree or
/// blocks of a quantised row-parallel weight stay whole (UnitGrain).
///
/// A layer's `forward` takes the communicator: layers are templates on the back end and the policy, and on the communicator only
/// where they meet it. All that a call needs is the caller's (`workspace`); calls allocate nothing.
///
/// Example  TensorParallel<Host, Deterministic> const group(context, comm);
///          auto const pieces = group.ffn_pieces(11008, down);
///          auto up = group.packed_gate_up(gate_up, pieces);
///          auto out = group.row_linear(down, pieces);
template <ComputeBackend Backend, ReductionPolicy Policy = Fast>
class TensorParallel {
public:
    using Context = typename Backend::Context;
    using Column = ColumnLinear<Backend>;
    using Row = RowLinear<Backend, Policy>;
    using Bias = TensorView<float const, 1, Backend>;

    /// `context` outlives this and every layer that it makes.
    TensorParallel(Context& context, TensorPlace place) : context_(&context), place_(place) {}
    template <HasRank C>
    TensorParallel(Context& context, C const& comm) : TensorParallel(context, TensorPlace{comm.size(), comm.rank()}) {}

    [[nodiscard]] TensorPlace place() const { return place_; }

    /// The cut of an attention's output projection, by heads.
    [[nodiscard]] InputPieces attention_pieces(std::int64_t heads, std::int64_t value_dim,
                                               WeightSource const& output) const {
        return head_pieces(heads, value_dim, input_grain(output.format, output.group));
    }
    /// The cut of an FFN's width, which the policy chooses, by the format of the down projection.
    [[nodiscard]] InputPieces ffn_pieces(std::int64_t width, WeightSource const& down) const {
        return cut_width<Policy>(width, weight_grain(down.format, down.group));
    }
    /// This rank's heads.
    ///
    /// Errors  invalid_argument where there are more ranks than query heads, with what is legal
    [[nodiscard]] Result<HeadShare> heads(std::int64_t heads, std::int64_t kv_heads, InputPieces const& pieces) const {
        return head_share(heads, kv_heads, pieces, place_.ranks, place_.rank);
    }
    /// This rank's rows of an embedding or a head; none where it is no rank of its group.
    [[nodiscard]] UnitRange vocabulary(std::int64_t size) const {
        return detail::check_place(subject, place_) ? split_units(size, place_.ranks, place_.rank) : UnitRange{};
    }

    /// A layer of which each rank makes its share of outputs, sharded by split_units: also a head over the vocabulary.
    ///
    /// Errors  as ColumnLinear::create; invalid_argument where this is no rank of its group
    [[nodiscard]] Result<Column> column_linear(WeightSource const& weight, Bias bias = {}) const {
        if (auto const placed = detail::check_place(subject, place_); !placed) return placed.error();
        UnitRange const rows[] = {split_units(weight.outputs, place_.ranks, place_.rank)};
        return Column::create(*context_, weight, rows, bias, Policy::has_fixed_tree);
    }
    /// A layer whose outputs are the inputs of a row-parallel layer that is cut into `pieces`: an FFN's first, ungated.
    ///
    /// Errors  as ColumnLinear::create; shape_mismatch where the pieces are not those of the outputs; invalid_argument where
    ///         they are made of nothing, or this is no rank of its group
    [[nodiscard]] Result<Column> column_linear(WeightSource const& weight, InputPieces const& pieces,
                                               Bias bias = {}) const {
        if (auto const checked = check(weight.outputs, pieces.inputs, pieces); !checked) return checked.error();
        UnitRange const rows[] = {pieces.inputs_of_rank(place_.ranks, place_.rank)};
        return Column::create(*context_, weight, rows, bias, Policy::has_fixed_tree);
    }
    /// Gate and up in one weight [gate, then up; inputs] (phi3): the rank's gate columns, then its up columns.
    ///
    /// Errors  as column_linear
    [[nodiscard]] Result<Column> packed_gate_up(WeightSource const& weight, InputPieces const& pieces,
                                                Bias bias = {}) const {
        if (auto const checked = check(weight.outputs, 2 * pieces.inputs, pieces); !checked) return checked.error();
        auto const own = pieces.inputs_of_rank(place_.ranks, place_.rank);
        UnitRange const rows[] = {own, {pieces.inputs + own.begin, pieces.inputs + own.end}};
        return Column::create(*context_, weight, rows, bias, Policy::has_fixed_tree);
    }
    /// Queries, keys and values in one weight: the rank's query heads, then its key heads, then its value heads.
    ///
    /// Errors  as column_linear and heads
    [[nodiscard]] Result<Column> packed_qkv(WeightSource const& weight, PackedQkv const& packed,
                                            InputPieces const& pieces, Bias bias = {}) const {
        if (auto const checked = check_widths(packed.key_dim, packed.value_dim); !checked) return checked.error();
        auto const keys = packed.heads * packed.key_dim;
        auto const values = keys + packed.kv_heads * packed.key_dim;
        auto const all = values + packed.kv_heads * packed.value_dim;
        if (auto const checked = check(weight.outputs, all, pieces); !checked) return checked.error();
        auto const share = heads(packed.heads, packed.kv_heads, pieces);
        if (!share) return share.error();
        auto const rows_of = [](std::int64_t first, UnitRange units, std::int64_t size) {
            return UnitRange{first + units.begin * size, first + units.end * size};
        };
        UnitRange const rows[] = {rows_of(0, share->query, packed.key_dim), rows_of(keys, share->kv, packed.key_dim),
                                  rows_of(values, share->kv, packed.value_dim)};
        return Column::create(*context_, weight, rows, bias, Policy::has_fixed_tree);
    }
    /// A layer whose inputs are sharded over the ranks by pieces and whose products are summed by the policy.
    ///
    /// Errors  as RowLinear::create
    [[nodiscard]] Result<Row> row_linear(WeightSource const& weight, InputPieces const& pieces, Bias bias = {}) const {
        return Row::create(*context_, weight, pieces, place_, bias);
    }

private:
    static constexpr std::string_view subject = "tensor parallel";

    [[nodiscard]] static Result<> check_widths(std::int64_t key_dim, std::int64_t value_dim) {
        if (key_dim >= 1 && value_dim >= 1) return {};
        return Error{ErrorCode::invalid_argument}
            .in(subject)
            .at(key_dim < 1 ? "key_dim" : "value_dim")
            .because("gives heads no width")
            .got(key_dim < 1 ? key_dim : value_dim)
            .at_least(1);
    }

    /// That this is a rank, and that a weight's outputs are those that the pieces cut.
    [[nodiscard]] Result<> check(std::int64_t got, std::int64_t expected, InputPieces const& pieces) const {
        if (auto const placed = detail::check_place(subject, place_); !placed) return placed;
        if (auto const cut = detail::check_pieces(subject, pieces); !cut) return cut;
        if (got == expected) return {};
        return Error{ErrorCode::shape_mismatch}
            .in(subject)
            .at("outputs")
            .because("are not those of the pieces or heads that the weight is cut by")
            .got(got)
            .expected(expected);
    }

    Context* context_;
    TensorPlace place_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
