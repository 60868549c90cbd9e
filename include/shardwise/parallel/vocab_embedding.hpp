// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/kernels/embedding.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/detail/element_wise.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Rows of a table whose rows are sharded over the ranks: each rank looks up the ids that are its own, the sum over the ranks has
/// one summand that is not zero per row, so it is exact: the same bits for any number of ranks (a -0 becomes +0). An id that no
/// rank has gives zeros.
///
/// Shapes  ids [tokens]; table [rows of this rank, width], the first of them `first_row` of the whole; out [tokens, width] dense
/// Memory  allocates nothing
/// Order   on `stream`, the collective too
/// Errors  shape_mismatch; a collective's error stops the stream
template <ComputeBackend Backend, Communicator C>
[[nodiscard]] Result<> vocab_embedding(TensorView<std::int32_t const, 1, Backend> ids,
                                       TensorView<float const, 2, Backend> table, std::int64_t first_row,
                                       TensorView<float, 2, Backend> out, C& comm, typename Backend::Stream& stream) {
    if (auto const known = check_views("vocab_embedding", ids, table, out); !known) return known;
    if (!out.is_dense()) {
        return Error{ErrorCode::shape_mismatch}
            .in("vocab_embedding")
            .because("the output's rows lie apart")
            .got(out.stride(0))
            .expected(out.extent(1));
    }
    if (auto const found = embedding(ids, table, out, stream, first_row); !found) return found;
    TensorView<float, 1, Backend> const flat{out.data(), {out.elements()}};
    if (comm.size() == 1) {
        detail::shift<Backend>(flat, 0.0F, stream);
    } else {
        submit_all_reduce(comm, flat, ReduceOp::sum, stream);
    }
    return {};
}

/// Floats that vocab_embedding_scattered needs beside its tensors.
[[nodiscard]] constexpr std::int64_t vocab_embedding_workspace(std::int64_t tokens, std::int64_t width,
                                                               std::int32_t ranks) {
    return ranks > 1 ? tokens * width : 0;
}

/// The same, of which each rank gets the rows of its tokens: sequence parallelism. The gradient is that of all tokens
/// (gather_tokens), which vocab_embedding_backward takes.
///
/// Shapes  ids [tokens], of all ranks; out [split_units(tokens, ranks, rank), width] dense; workspace
///         [vocab_embedding_workspace(tokens, width, ranks)]
/// Memory  allocates nothing; nothing overlaps
/// Order   on `stream`, the collective (one reduce-scatter) too
/// Errors  shape_mismatch; a collective's error stops the stream
template <ComputeBackend Backend, Communicator C>
[[nodiscard]] Result<> vocab_embedding_scattered(TensorView<std::int32_t const, 1, Backend> ids,
                                                 TensorView<float const, 2, Backend> table, std::int64_t first_row,
                                                 TensorView<float, 2, Backend> out,
                                                 TensorView<float, 1, Backend> workspace, C& comm,
                                                 typename Backend::Stream& stream) {
    if (auto const known = check_views("vocab_embedding", ids, table, out, workspace); !known) return known;
    if (comm.size() == 1) return vocab_embedding(ids, table, first_row, out, comm, stream);
    auto const tokens = ids.elements();
    auto const width = table.extent(1);
    auto const own = split_units(tokens, comm.size(), comm.rank()).size();
    Error error{ErrorCode::shape_mismatch};
    error.in("vocab_embedding");
    if (out.extent(0) != own || out.extent(1) != width || !out.is_dense())
        return error.because("the output is not this rank's share of the tokens, or rows have gaps")
            .got(out.extent(0))
            .expected(own);
    auto const needed = vocab_embedding_workspace(tokens, width, comm.size());
    if (workspace.elements() < needed)
        return error.because("the workspace is too small").got(workspace.elements()).at_least(needed);
    TensorView<float, 2, Backend> const whole{workspace.data(), {tokens, width}};
    if (auto const found = embedding(ids, table, whole, stream, first_row); !found) return found;
    submit_reduce_scatter(
        comm, TensorView<float const, 1, Backend>{whole.data(), {whole.elements()}},
        TensorView<float, 1, Backend>{out.data(), {out.elements()}},
        [tokens, width, ranks = comm.size()](std::int32_t rank) {
            return split_units(tokens, ranks, rank).size() * width;
        },
        stream);
    return {};
}

namespace detail {

/// Adds each token's gradient to its row of the table. One body per range of columns: tokens that share an id meet in order.
struct AddToRowsBody {
    std::int32_t const* ids;
    std::int64_t tokens;
    float const* gradient;
    std::int64_t gradient_stride;
    float* table;
    std::int64_t table_stride;
    std::int64_t rows;
    std::int64_t first_row;
    constexpr void operator()(std::int64_t begin, std::int64_t end) const {
        for (std::int64_t token = 0; token < tokens; ++token) {
            auto const row = ids[token] - first_row;
            if (row < 0 || row >= rows) continue;
            for (auto i = begin; i < end; ++i) table[row * table_stride + i] += gradient[token * gradient_stride + i];
        }
    }
};

}  // namespace detail

/// The table's gradient: adds each token's row to the row of its id, where that is this rank's. No communication: every rank
/// has the whole gradient of the output.
///
/// Shapes  as vocab_embedding: gradient [tokens, width], table_gradient [rows of this rank, width], added to
/// Order   on `stream`
/// Errors  shape_mismatch
template <ComputeBackend Backend>
[[nodiscard]] Result<> vocab_embedding_backward(TensorView<std::int32_t const, 1, Backend> ids,
                                                TensorView<float const, 2, Backend> gradient, std::int64_t first_row,
                                                TensorView<float, 2, Backend> table_gradient,
                                                typename Backend::Stream& stream) {
    if (auto const known = check_views("vocab_embedding_backward", ids, gradient, table_gradient); !known) return known;
    if (gradient.extent(0) != ids.elements() || gradient.extent(1) != table_gradient.extent(1)) {
        return Error{ErrorCode::shape_mismatch}
            .in("vocab_embedding_backward")
            .because("the gradient has not one row of the table's width per id")
            .got(gradient.extent(0))
            .expected(ids.elements());
    }
    detail::launch_ranges<Backend>(
        gradient.extent(1), detail::row_grain(ids.elements()),
        detail::AddToRowsBody{ids.data(), ids.elements(), gradient.data(), gradient.stride(0), table_gradient.data(),
                              table_gradient.stride(0), table_gradient.extent(0), first_row},
        stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
