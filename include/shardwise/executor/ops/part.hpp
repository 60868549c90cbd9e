// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<PartOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>& walk, Operation const& op, std::size_t) {
        TensorView<float const, 2, Backend> const in = walk.view(op.inputs[0]);
        auto const out = walk.view(op.output);
        auto const unit = op.in_features;
        auto const width = op.out_features;
        auto const copy = [=, first = op.first_column](std::int64_t begin, std::int64_t end) {
            for (auto row = begin; row < end; ++row) {
                for (std::int64_t i = 0; i < out.extent(1) / width; ++i)
                    std::memcpy(out.row(row) + i * width, in.row(row) + i * unit + first,
                                static_cast<std::size_t>(width) * sizeof(float));
            }
        };
        Backend::launch(out.extent(0), copy, walk.stream, 16);
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
