// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/ops/trained_ops.hpp>
#include <shardwise/executor/training/training_walk.hpp>
#include <shardwise/kernels/backward/add.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// An operation of the forward pass.
[[nodiscard]] inline Result<> run_operation(TrainingWalk const& walk, std::size_t number) {
    auto const& op = walk.body.forward.operations()[number];
    auto const done = visit_trained(op.kind, [&](auto of) { return of.forward(walk, op, number); });
    if (done) walk.round_value(op.output);
    return done;
}

inline void round_made(TrainingWalk const& walk, GradientStep const& step) {
    for (auto const id : step.writes) {
        if (id != no_value) walk.round_gradient(id);
    }
}

/// Tensor-parallel ranks have whole sums of some columns each, which a reduction brings together; gradients of keys and
/// values are whole already.
[[nodiscard]] inline Result<> take_step(TrainingWalk const& walk, GradientStep const& step) {
    switch (step.part) {
        case GradientPart::inputs:
        case GradientPart::parameters: {
            auto const number = static_cast<std::size_t>(step.of);
            auto const& op = walk.body.forward.operations()[number];
            auto const done = visit_trained(op.kind, [&](auto of) {
                return step.part == GradientPart::inputs ? of.inputs(walk, op, number, step)
                                                         : of.parameters(walk, op, number, step);
            });
            if (done) round_made(walk, step);
            return done;
        }
        case GradientPart::reduction:
            if (walk.shared != nullptr && step.spread == Spread::partial)
                gather_shares(*walk.tensor, walk.gradient(step.reads), walk.stream);
            break;
        case GradientPart::sum: {
            auto const done = add_backward(walk.gradient(step.reads), walk.gradient(step.writes[0]), true, walk.stream);
            if (done) round_made(walk, step);
            return done;
        }
    }
    return {};
}

/// The steps of one block's backward pass, or of a part of it, each behind what it reads and is not kept.
[[nodiscard]] inline Result<> walk_back(TrainingWalk const& walk, BodyMemory::Back const& memory) {
    auto const& again = memory.again;
    if (memory.output_copy.place != BodyMemory::Place::none) {
        if (auto const done = walk.keep_output_gradient(memory.output_copy); !done) return done;
    }
    std::size_t next = 0;
    std::size_t unpacked = 0;
    for (std::size_t i = 0; i < walk.body.steps.size(); ++i) {
        if (!runs_in(walk.body.steps[i], memory.part)) continue;
        for (; unpacked < memory.unpacked.size() && memory.unpacked[unpacked].step == i; ++unpacked)
            walk.unpack_value(memory.unpacked[unpacked].value);
        for (; next < again.size() && again[next].step == i; ++next) {
            if (auto const done = run_operation(walk, again[next].operation); !done) return done;
        }
        if (auto const done = take_step(walk, walk.body.steps[i]); !done) return done;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
