// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/activation.hpp>
#include <shardwise/parallel/tensor_parallel.hpp>

#include <cstdint>
#include <utility>

namespace shardwise::testing {

/// One rank of down(silu(gate(in)) * up(in)), of the layers that the executor walks: gate and up are one product.
template <class Backend, class Policy>
class MlpRank {
public:
    using Stream = typename Backend::Stream;
    using Rows = TensorView<float, 2, Backend>;
    using ConstRows = TensorView<float const, 2, Backend>;

    [[nodiscard]] static Result<MlpRank> create(TensorParallel<Backend, Policy> const& group,
                                                WeightSource const& gate_up, WeightSource const& down) {
        auto const pieces = group.ffn_pieces(down.inputs, down);
        auto first = group.packed_gate_up(gate_up, pieces);
        if (!first) return first.error();
        auto second = group.row_linear(down, pieces);
        if (!second) return second.error();
        return Result<MlpRank>(MlpRank(std::move(*first), std::move(*second)));
    }

    /// The hidden values and the sum's.
    [[nodiscard]] std::int64_t workspace(std::int64_t tokens) const {
        return tokens * first_.outputs() + second_.workspace(tokens);
    }
    [[nodiscard]] std::int64_t workspace_scattered(std::int64_t tokens) const {
        return tokens * first_.outputs() + second_.workspace_scattered(tokens);
    }

    template <Communicator C>
    [[nodiscard]] Result<> forward(ConstRows in, Rows out, TensorView<float, 1, Backend> workspace, C& comm,
                                   Stream& stream) const {
        auto const hidden = make_hidden(in, workspace, stream);
        return hidden ? second_.forward(*hidden, out, after(workspace, in.extent(0)), comm, stream) : hidden.error();
    }
    /// The same, of which each rank gets its tokens' rows.
    template <Communicator C>
    [[nodiscard]] Result<> forward_scattered(ConstRows in, Rows out, TensorView<float, 1, Backend> workspace, C& comm,
                                             Stream& stream) const {
        auto const hidden = make_hidden(in, workspace, stream);
        return hidden ? second_.forward_scattered(*hidden, out, after(workspace, in.extent(0)), comm, stream)
                      : hidden.error();
    }

    [[nodiscard]] Bytes bytes() const { return first_.bytes() + second_.bytes(); }

private:
    MlpRank(ColumnLinear<Backend>&& first, RowLinear<Backend, Policy>&& second)
        : first_(std::move(first)), second_(std::move(second)) {}

    [[nodiscard]] TensorView<float, 1, Backend> after(TensorView<float, 1, Backend> workspace,
                                                      std::int64_t tokens) const {
        auto const taken = tokens * first_.outputs();
        return workspace.part(taken, workspace.elements() - taken);
    }
    [[nodiscard]] Result<ConstRows> make_hidden(ConstRows in, TensorView<float, 1, Backend> workspace,
                                                Stream& stream) const {
        Rows const made{workspace.data(), {in.extent(0), first_.outputs()}};
        if (auto const done = first_.forward(in, made, stream); !done) return done.error();
        auto const width = second_.inputs();
        auto const hidden = made.columns(0, width);
        if (width > 0) {
            auto const done = gated_activation(ConstRows(hidden), ConstRows(made.columns(width, width)), hidden,
                                               ActivationKind::silu, stream);
            if (!done) return done.error();
        }
        return ConstRows(hidden);
    }

    ColumnLinear<Backend> first_;
    RowLinear<Backend, Policy> second_;
};

}  // namespace shardwise::testing
