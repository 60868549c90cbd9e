// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/kernels/arg_max.hpp>
#include <shardwise/kernels/copy_rows.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/place.hpp>

#include <concepts>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Floats that gather_logits needs beside its tensors: none for one row, which arrives in order.
[[nodiscard]] constexpr std::int64_t gather_logits_workspace(std::int64_t rows, std::int64_t vocabulary) {
    return rows > 1 ? rows * vocabulary : 0;
}

namespace detail {

/// Whether columns of logits are a rank's share of the vocabulary: asked once by who calls gather_logits_bound.
///
/// Errors  shape_mismatch
[[nodiscard]] inline Result<> check_logits(std::int64_t columns, std::int64_t vocabulary, TensorPlace place) {
    auto const own = split_units(vocabulary, place.ranks, place.rank).size();
    if (columns == own) return {};
    return Error{ErrorCode::shape_mismatch}
        .in("gather_logits")
        .because("the input is not this rank's share of the vocabulary")
        .got(columns)
        .expected(own);
}

/// gather_logits of columns that check_logits has taken, of rows that are as many and without gaps, and with workspace enough: on the host
/// nothing is checked again.
template <ComputeBackend Backend, Communicator C>
[[nodiscard]] Result<> gather_logits_bound(TensorView<float const, 2, Backend> own, TensorView<float, 2, Backend> out,
                                           TensorView<float, 1, Backend> workspace, C& comm,
                                           typename Backend::Stream& stream) {
    auto const rows = out.extent(0);
    auto const share = [vocabulary = out.extent(1), ranks = comm.size()](std::int32_t rank) {
        return split_units(vocabulary, ranks, rank);
    };
    SHARDWISE_ASSERT(own.extent(0) == rows && own.extent(1) == share(comm.rank()).size());
    bool const is_in_order = rows <= 1 || comm.size() == 1;
    TensorView<float const, 1, Backend> const flat{own.data(), {own.elements()}};
    TensorView<float, 1, Backend> const gathered{is_in_order ? out.data() : workspace.data(), {out.elements()}};
    if (comm.size() == 1) return Backend::template copy<float>(flat, gathered, stream);
    submit_all_gather(
        comm, flat, gathered, [share, rows](std::int32_t rank) { return share(rank).size() * rows; }, stream);
    for (std::int32_t rank = 0; rank < comm.size() && !is_in_order; ++rank) {
        auto const columns = share(rank);
        TensorView<float const, 2, Backend> const part{gathered.data() + rows * columns.begin, {rows, columns.size()}};
        auto const to = out.columns(columns.begin, columns.size());
        auto const copied = [&] {
            if constexpr (std::same_as<Backend, Host>)
                return copy_rows_bound<float>(part, to, stream);
            else
                return copy_rows<float>(part, to, stream);
        }();
        if (!copied) return copied;
    }
    return {};
}

}  // namespace detail

/// Puts together logits whose vocabulary split_units sharded over the ranks (a ColumnLinear's output).
///
/// Shapes  own [rows, this rank's columns] dense, out [rows, vocabulary] dense; workspace [gather_logits_workspace(...)]
/// Memory  allocates nothing; nothing overlaps
/// Order   on `stream`, the collective too
/// Errors  shape_mismatch; a collective's error stops the stream
template <ComputeBackend Backend, Communicator C>
[[nodiscard]] Result<> gather_logits(TensorView<float const, 2, Backend> own, TensorView<float, 2, Backend> out,
                                     TensorView<float, 1, Backend> workspace, C& comm,
                                     typename Backend::Stream& stream) {
    if (auto const known = check_views("gather_logits", own, out, workspace); !known) return known;
    auto const rows = out.extent(0);
    auto const vocabulary = out.extent(1);
    if (auto const fits = detail::check_logits(own.extent(1), vocabulary, {comm.size(), comm.rank()}); !fits)
        return fits;
    auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("gather_logits"); };
    if (own.extent(0) != rows || !own.is_dense() || !out.is_dense())
        return refused()
            .because("input and output do not have the same rows without gaps")
            .got(own.extent(0))
            .expected(rows);
    auto const needed = comm.size() == 1 ? 0 : gather_logits_workspace(rows, vocabulary);
    if (workspace.elements() < needed)
        return refused().because("the workspace is too small").got(workspace.elements()).at_least(needed);
    return detail::gather_logits_bound<Backend>(own, out, workspace, comm, stream);
}

/// The id of each row's largest logit where the vocabulary is sharded over the ranks: eight bytes per row travel, not the row. Of
/// equal logits the lowest id; -1 where none is a number.
///
/// Shapes  own [rows, this rank's columns], the first of them id `first_id`; ids [rows]; workspace [rows]
/// Memory  allocates nothing
/// Order   on `stream`, the collective (one all-reduce) too
/// Errors  shape_mismatch; a collective's error stops the stream
template <ComputeBackend Backend, Communicator C>
[[nodiscard]] Result<> vocab_arg_max(TensorView<float const, 2, Backend> own, std::int64_t first_id,
                                     TensorView<std::int32_t, 1, Backend> ids,
                                     TensorView<std::int64_t, 1, Backend> workspace, C& comm,
                                     typename Backend::Stream& stream) {
    if (auto const known = check_views("vocab_arg_max", own, ids, workspace); !known) return known;
    auto const rows = own.extent(0);
    if (ids.elements() != rows || workspace.elements() < rows) {
        return Error{ErrorCode::shape_mismatch}
            .in("vocab_arg_max")
            .because("ids or workspace do not have one place per row")
            .got(ids.elements())
            .expected(rows);
    }
    auto const keys = workspace.part(0, rows);
    if (auto const found = largest_logits(own, first_id, keys, stream); !found) return found;
    submit_all_reduce(comm, keys, ReduceOp::max, stream);
    return ids_of_keys(keys, ids, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
