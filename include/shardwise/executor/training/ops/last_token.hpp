// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/kernels/backward/add.hpp>
#include <shardwise/kernels/copy_rows.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// In training every token is scored: the rows are those of the input.
template <>
struct TrainedOp<LastTokenOp> : NeedsNoScratch, HasNoParameters {
    [[nodiscard]] static Result<> forward(TrainingWalk const& walk, Operation const& op, std::size_t) {
        return copy_rows<float>(walk.value(op.inputs[0]), walk.value(op.output), walk.stream);
    }
    [[nodiscard]] static Result<> inputs(TrainingWalk const& walk, Operation const&, std::size_t,
                                         GradientStep const& step) {
        return add_backward(walk.gradient(step.reads), walk.gradient(step.writes[0]), step.is_added[0], walk.stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
