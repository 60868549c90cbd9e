// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/kernels/add.hpp>
#include <shardwise/kernels/backward/add.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
struct TrainedOp<AddOp> : NeedsNoScratch, HasNoParameters {
    [[nodiscard]] static Result<> forward(TrainingWalk const& walk, Operation const& op, std::size_t) {
        return add<float>(walk.value(op.inputs[0]), walk.value(op.inputs[1]), walk.value(op.output), walk.stream);
    }
    [[nodiscard]] static Result<> inputs(TrainingWalk const& walk, Operation const&, std::size_t,
                                         GradientStep const& step) {
        for (std::size_t i = 0; i < 2; ++i) {
            if (step.writes[i] == no_value) continue;
            auto const done =
                add_backward(walk.gradient(step.reads), walk.gradient(step.writes[i]), step.is_added[i], walk.stream);
            if (!done) return done;
        }
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
