// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/activation.hpp>
#include <shardwise/parallel/column_linear.hpp>
#include <shardwise/parallel/row_linear.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A feed-forward unit over the ranks: down(activation(up(in))), or down(activation(gate(in)) * up(in)) where it is gated. Gate
/// and up are one product, and the ranks' sums are the only communication.
template <ComputeBackend Backend, ReductionPolicy Policy>
class ParallelMlp {
public:
    using Stream = typename Backend::Stream;

    /// `up` makes this rank's hidden columns, after those of the gate where there is one; `down` takes them.
    ///
    /// Errors  shape_mismatch where the two do not fit together
    [[nodiscard]] static Result<ParallelMlp> create(ColumnLinear<Backend> up, RowLinear<Backend, Policy> down,
                                                    ActivationKind activation, bool is_gated) {
        auto const expected = down.inputs() * (is_gated ? 2 : 1);
        if (up.outputs() != expected) {
            return Error{ErrorCode::shape_mismatch}
                .in("parallel_mlp")
                .because("the first layer's columns are not the second's inputs")
                .got(up.outputs())
                .expected(expected);
        }
        return Result<ParallelMlp>(ParallelMlp(std::move(up), std::move(down), activation, is_gated));
    }

    /// Floats that `forward` needs beside its tensors: the hidden values and the sum's.
    [[nodiscard]] std::int64_t workspace(std::int64_t tokens) const {
        return tokens * up_.outputs() + down_.workspace(tokens);
    }
    [[nodiscard]] std::int64_t workspace_scattered(std::int64_t tokens) const {
        return tokens * up_.outputs() + down_.workspace_scattered(tokens);
    }

    /// Shapes  in [tokens, width], out [tokens, width] dense; workspace [workspace(tokens)] or more
    /// Memory  allocates nothing; nothing overlaps
    /// Order   on `stream`, the collective too
    /// Errors  shape_mismatch; a collective's error stops the stream
    template <Communicator C>
    [[nodiscard]] Result<> forward(TensorView<float const, 2, Backend> in, TensorView<float, 2, Backend> out,
                                   TensorView<float, 1, Backend> workspace, C& comm, Stream& stream) const {
        if (auto const known = check_views("parallel_mlp", in, out, workspace); !known) return known;
        auto const hidden = make_hidden(in, workspace, this->workspace(in.extent(0)), stream);
        if (!hidden) return hidden.error();
        return down_.forward(*hidden, out, after(workspace, in.extent(0)), comm, stream);
    }
    /// The same, of which each rank gets its tokens' rows: out [split_units(tokens, ranks, rank), width].
    template <Communicator C>
    [[nodiscard]] Result<> forward_scattered(TensorView<float const, 2, Backend> in, TensorView<float, 2, Backend> out,
                                             TensorView<float, 1, Backend> workspace, C& comm, Stream& stream) const {
        if (auto const known = check_views("parallel_mlp", in, out, workspace); !known) return known;
        auto const hidden = make_hidden(in, workspace, workspace_scattered(in.extent(0)), stream);
        if (!hidden) return hidden.error();
        return down_.forward_scattered(*hidden, out, after(workspace, in.extent(0)), comm, stream);
    }

    [[nodiscard]] Bytes bytes() const { return up_.bytes() + down_.bytes(); }

private:
    ParallelMlp(ColumnLinear<Backend>&& up, RowLinear<Backend, Policy>&& down, ActivationKind activation, bool is_gated)
        : up_(std::move(up)), down_(std::move(down)), activation_(activation), is_gated_(is_gated) {}

    [[nodiscard]] TensorView<float, 1, Backend> after(TensorView<float, 1, Backend> workspace,
                                                      std::int64_t tokens) const {
        auto const taken = tokens * up_.outputs();
        return workspace.part(taken, workspace.elements() - taken);
    }
    /// The rank's hidden columns, at the beginning of the workspace.
    [[nodiscard]] Result<TensorView<float const, 2, Backend>> make_hidden(TensorView<float const, 2, Backend> in,
                                                                          TensorView<float, 1, Backend> workspace,
                                                                          std::int64_t needed, Stream& stream) const {
        if (workspace.elements() < needed) {
            return Error{ErrorCode::shape_mismatch}
                .in("parallel_mlp")
                .because("the workspace is too small")
                .got(workspace.elements())
                .at_least(needed);
        }
        TensorView<float, 2, Backend> const made{workspace.data(), {in.extent(0), up_.outputs()}};
        if (auto const done = up_.forward(in, made, stream); !done) return done.error();
        auto const width = down_.inputs();
        auto const hidden = made.columns(0, width);
        TensorView<float const, 2, Backend> const readable = hidden;
        if (width > 0) {
            auto const done =
                is_gated_ ? gated_activation(readable, TensorView<float const, 2, Backend>(made.columns(width, width)),
                                             hidden, activation_, stream)
                          : activation(readable, hidden, activation_, stream);
            if (!done) return done.error();
        }
        return readable;
    }

    ColumnLinear<Backend> up_;
    RowLinear<Backend, Policy> down_;
    ActivationKind activation_;
    bool is_gated_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
