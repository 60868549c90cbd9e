// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/kernels/backward/add.hpp>
#include <shardwise/kernels/backward/rope.hpp>
#include <shardwise/kernels/copy_rows.hpp>
#include <shardwise/kernels/rope.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
struct TrainedOp<RopeOp> : NeedsNoScratch, HasNoParameters {
    [[nodiscard]] static Result<> forward(TrainingWalk const& walk, Operation const& op, std::size_t) {
        auto const out = walk.value(op.output);
        if (auto const copied = copy_rows<float>(walk.value(op.inputs[0]), out, walk.stream); !copied) return copied;
        return rope<float>(turning(out, op), walk.positions, walk.frequencies, op.attention().key_dim,
                           op.attention().rope_layout, walk.stream, walk.rope_scale, first_of(op));
    }
    /// The output's gradient is read by nothing else: it is rotated in place.
    [[nodiscard]] static Result<> inputs(TrainingWalk const& walk, Operation const& op, std::size_t,
                                         GradientStep const& step) {
        auto const gradient = walk.gradient(step.reads);
        auto const done =
            rope_backward<float>(turning(gradient, op), walk.positions, walk.frequencies, op.attention().key_dim,
                                 op.attention().rope_layout, walk.stream, walk.rope_scale, first_of(op));
        if (!done) return done;
        return add_backward(gradient, walk.gradient(step.writes[0]), step.is_added[0], walk.stream);
    }

private:
    /// Of queries, keys and values in one value, the first two turn.
    [[nodiscard]] static TrainingWalk::Matrix turning(TrainingWalk::Matrix values, Operation const& op) {
        auto const& shape = op.attention();
        auto const rotated = (shape.heads + shape.kv_heads) * shape.key_dim;
        bool const is_fused = values.extent(1) == rotated + shape.kv_heads * shape.value_dim;
        return is_fused ? values.columns(0, rotated) : values;
    }
    [[nodiscard]] static std::int64_t first_of(Operation const& op) {
        return op.attention().rotary > 0 ? op.attention().key_dim - op.attention().rotary : 0;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
