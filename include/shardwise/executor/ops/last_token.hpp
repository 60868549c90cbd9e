// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/take_rows.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<LastTokenOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    /// A row for each sequence of a row for each token.
    static constexpr bool changes_rows = true;

    [[nodiscard]] static Result<HeldOperation<Backend, Policy>> load(OperationLoader<Backend> const&,
                                                                     Operation const& op, BlockBody const&,
                                                                     BlockCut const&) {
        if (!HasHostMemory<Backend> && op.taken_row() == TakenRow::mean)
            return no_kernel<Backend>("the mean of a text's tokens");
        return HeldOperation<Backend, Policy>{};
    }

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        TensorView<float const, 2, Backend> const in = row_of<Backend>(op.inputs[0]);
        return check_rows("take_rows", in, in.extent(1), row_of<Backend>(op.output));
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        TensorView<T const, 2, Backend> const in = walk.view(op.inputs[0]);
        // Which rows those are, the step's table says.
        auto const out = walk.view(op.output);
        auto const wanted = walk.step.table.wanted();
        if constexpr (std::same_as<Backend, Host>) {
            if (op.op->taken_row() == TakenRow::mean) return take_means<T>(wanted, in, out, walk.stream);
            return take_rows_bound<T>(wanted, in, out, walk.stream);
        } else {
            return take_rows<T>(wanted, in, out, walk.stream);
        }
    }

private:
    /// Sequences lie one after another, each to its last row, and a step of what is pooled has them whole.
    template <ActivationElement T>
    [[nodiscard]] static Result<> take_means(TensorView<std::int32_t const, 1, Host> last_rows,
                                             TensorView<T const, 2, Host> in, TensorView<T, 2, Host> out,
                                             HostStream& stream) {
        auto const width = in.extent(1);
        auto const average = [=](std::int64_t begin, std::int64_t end) {
            for (auto i = begin; i < end; ++i) {
                std::int64_t const first = i == 0 ? 0 : last_rows.data()[i - 1] + 1;
                std::int64_t const last = last_rows.data()[i];
                for (std::int64_t column = 0; column < width; ++column) {
                    double sum = 0.0;
                    for (auto row = first; row <= last; ++row) sum += static_cast<float>(in.row(row)[column]);
                    out.row(i)[column] = T(static_cast<float>(sum / static_cast<double>(last - first + 1)));
                }
            }
        };
        Host::launch(last_rows.elements(), average, stream, 1);
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
