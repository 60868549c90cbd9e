// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/kernels/copy_rows.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<LastTokenOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>& walk, Operation const& op, std::size_t) {
        auto const in = walk.view(op.inputs[0]);
        auto const out = walk.view(op.output);
        std::int64_t first = 0;
        std::int64_t row = 0;
        for (auto const& part : walk.step.parts) {
            auto const at = op.takes_first ? first : first + part.tokens - 1;
            auto const copied =
                copy_rows<float>(TensorView<float const, 2, Backend>(in.rows(at, 1)), out.rows(row, 1), walk.stream);
            if (!copied) return copied;
            first += part.tokens;
            ++row;
        }
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
