// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/kernels/backward/scale.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A product with a number is its own gradient: one kernel serves both ways. So is dropout, where the operation is that of an adapter's
/// input.
template <>
struct TrainedOp<ScaleOp> : NeedsNoScratch, HasNoParameters {
    [[nodiscard]] static Result<> forward(TrainingWalk const& walk, Operation const& op, std::size_t number) {
        if (auto const purpose = walk.dropped_input(number).purpose; purpose > 0)
            return walk.drop_shared(op.output, walk.value(op.inputs[0]), walk.value(op.output), purpose);
        return scale_backward(walk.value(op.inputs[0]), walk.value(op.output), false, static_cast<float>(op.factor()),
                              walk.stream);
    }
    [[nodiscard]] static Result<> inputs(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                         GradientStep const& step) {
        if (auto const purpose = walk.dropped_input(number).purpose; purpose > 0)
            return walk.drop_shared(op.output, walk.gradient(step.reads), walk.gradient(step.writes[0]), purpose,
                                    step.is_added[0]);
        return scale_backward(walk.gradient(step.reads), walk.gradient(step.writes[0]), step.is_added[0],
                              static_cast<float>(op.factor()), walk.stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
