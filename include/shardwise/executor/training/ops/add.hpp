// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/kernels/add.hpp>
#include <shardwise/kernels/backward/add.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
struct TrainedOp<AddOp> : NeedsNoScratch, HasNoParameters {
    [[nodiscard]] static Result<> forward(TrainingWalk const& walk, Operation const& op, std::size_t number) {
        if (auto const dropped = walk.dropped_input(number); dropped.purpose > 0) {
            auto const to = walk.value(op.output);
            auto const done = walk.drop(walk.value(op.inputs[dropped.input]), to, dropped.purpose);
            return done ? add_backward(walk.value(op.inputs[1 - dropped.input]), to, true, walk.stream) : done;
        }
        return add<float>(walk.value(op.inputs[0]), walk.value(op.inputs[1]), walk.value(op.output), walk.stream);
    }
    [[nodiscard]] static Result<> inputs(TrainingWalk const& walk, Operation const&, std::size_t number,
                                         GradientStep const& step) {
        auto const dropped = walk.dropped_input(number);
        for (std::size_t i = 0; i < 2; ++i) {
            if (step.writes[i] == no_value) continue;
            auto const from = walk.gradient(step.reads);
            auto const to = walk.gradient(step.writes[i]);
            bool const is_dropped = dropped.purpose > 0 && dropped.input == i;
            auto const done = is_dropped ? walk.drop(from, to, dropped.purpose, step.is_added[i])
                                         : add_backward(from, to, step.is_added[i], walk.stream);
            if (!done) return done;
        }
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
