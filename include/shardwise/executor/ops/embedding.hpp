// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/held_table.hpp>
#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/add_row.hpp>
#include <shardwise/kernels/embedding.hpp>
#include <shardwise/kernels/fill.hpp>
#include <shardwise/parallel/collectives.hpp>

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows of a table that is held as the file has it; of tokens' rows this rank's share, which ranks then add up. On a device a type of
/// tokens, which all rows have, is one row in fp32, and each rank has it.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<EmbeddingOp, Backend, Policy> {
    using Held = HeldOperation<Backend, Policy>;

    [[nodiscard]] static Result<Held> load(OperationLoader<Backend> const& from, Operation const& op, BlockBody const&,
                                           BlockCut const&) {
        auto const stored = from.find(op.parameters[0]);
        if (!stored) return stored.error();
        auto const& place = from.place();
        bool const is_dealt = stored->tensor->shard.kind != ShardKind::replicated;
        auto const own = is_dealt ? split_units(op.in_features, place.ranks, place.rank) : UnitRange{0, op.in_features};
        if (holds_one_row(op)) return load_row(from, op, *stored);
        UnitRange const rows[] = {own};
        auto slice =
            from.parameters().matrix(*stored, {.outputs = op.in_features, .inputs = op.out_features, .rows = rows});
        if (!slice) return slice.error();
        slice->read_once();
        auto table = HeldTable<Backend>::hold(from.parameters().rank(), slice->source(), own);
        if (!table) {
            auto error = table.error();
            return error.at(from.name_of(op.parameters[0]));
        }
        return Held{std::move(*table)};
    }

    [[nodiscard]] static Result<> count(MemoryTally& to, CountedBlock const& block, Operation const& op,
                                        ParameterFormat held) {
        auto const& place = block.place;
        auto const rows =
            held.is_replicated ? op.in_features : split_units(op.in_features, place.ranks, place.rank).size();
        if (holds_one_row(op)) {
            to.add_weights(4 * op.out_features);
        } else if constexpr (HasHostMemory<Backend>) {
            auto const scales = scale_bytes(held.format, op.out_features, held.group);
            to.add_weights(rows * (data_bytes(held.format, op.out_features) + scales));
        } else {
            auto const bytes = held_weight_bytes<Backend>(held.format, rows, op.out_features, held.group);
            if (!bytes) return bytes.error();
            to.add_weights(bytes->count());
            to.formats.push_back(format_held<Backend>(held.format, op.out_features, held.group));
        }
        return {};
    }

    [[nodiscard]] static std::int64_t scratch(CountedBlock const&, Operation const&, std::size_t) { return 0; }

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        if (op.output.width == op.op->out_features) return {};
        return Error{ErrorCode::shape_mismatch}
            .in("embedding")
            .because("the output is not as wide as the table")
            .got(op.output.width)
            .expected(op.op->out_features);
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        auto const out = walk.view(op.output);
        if (auto const* const row = std::get_if<HeldVector<Backend>>(&op.held)) {
            if (auto const done = fill<T>(out, 0.0F, walk.stream); !done) return done;
            return add_row<T>(TensorView<float const, 1, Backend>(row->values.view()), out, walk.stream);
        }
        auto const& table = std::get<HeldTable<Backend>>(op.held);
        if (auto const done = look_up(walk, *op.op, table, out); !done) return done;
        bool const is_dealt = table.rows.size() != op.op->in_features;
        if (is_dealt) {
            submit_all_reduce(walk.comm, TensorView<T, 1, Backend>{out.data(), {out.elements()}}, ReduceOp::sum,
                              walk.stream);
        }
        return {};
    }

private:
    [[nodiscard]] static bool holds_one_row(Operation const& op) {
        return !HasHostMemory<Backend> && op.table().index == TableIndex::token_type;
    }
    [[nodiscard]] static Result<Held> load_row(OperationLoader<Backend> const& from, Operation const& op,
                                               StoredParameter const& stored) {
        UnitRange const row[] = {
            {op.table().first_row * op.out_features, (op.table().first_row + 1) * op.out_features}};
        auto const values = from.parameters().floats(stored, op.in_features * op.out_features, row);
        if (!values) return values.error();
        auto buffer = hold_floats<Backend>(from.context(), *values);
        if (!buffer) return buffer.error();
        return Held{HeldVector<Backend>{std::move(*buffer)}};
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> look_up(BlockWalk<Backend, Policy, C, T>& walk, Operation const& op,
                                          HeldTable<Backend> const& table, TensorView<T, 2, Backend> out) {
        auto const numbers =
            op.table().index == TableIndex::position ? walk.step.table.positions() : walk.step.table.ids();
        if constexpr (HasHostMemory<Backend>) {
            bool const is_type = op.table().index == TableIndex::token_type;
            auto const decode = [out, numbers, is_type, &table, first = op.table().first_row](std::int64_t begin,
                                                                                              std::int64_t end) {
                for (auto row = begin; row < end; ++row) {
                    auto const id = (is_type ? 0 : numbers.data()[row]) + first;
                    auto* const to = out.row(row);
                    if (id < table.rows.begin || id >= table.rows.end) {
                        std::memset(to, 0, static_cast<std::size_t>(out.extent(1)) * sizeof(float));
                        continue;
                    }
                    decode_source(table.source, id - table.rows.begin, 0, out.extent(1), to);
                    // Also makes +0 of -0, as the sum over ranks does.
                    for (std::int64_t i = 0; i < out.extent(1); ++i) to[i] += 0.0F;
                }
            };
            Backend::launch(out.extent(0), decode, walk.stream);
            return {};
        } else {
            return embedding(numbers, *table.weight, out, walk.stream, table.rows.begin - op.table().first_row);
        }
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
