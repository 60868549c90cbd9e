// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<AddOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>& walk, Operation const& op, std::size_t) {
        auto const a = walk.view(op.inputs[0]);
        auto const b = walk.view(op.inputs[1]);
        auto const out = walk.view(op.output);
        auto const sum = [a, b, out](std::int64_t begin, std::int64_t end) {
            for (auto i = begin; i < end; ++i) out.data()[i] = a.data()[i] + b.data()[i];
        };
        Backend::launch(out.elements(), sum, walk.stream, 4096);
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
