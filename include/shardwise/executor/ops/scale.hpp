// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<ScaleOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>& walk, Operation const& op, std::size_t) {
        auto const values = walk.view(op.output);
        auto const multiply = [values, factor = static_cast<float>(op.factor)](std::int64_t begin, std::int64_t end) {
            for (auto i = begin; i < end; ++i) values.data()[i] *= factor;
        };
        Backend::launch(values.elements(), multiply, walk.stream, 4096);
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
