// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/score_scale.hpp>
#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/backward/attention.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Each sequence attends to itself.
template <>
struct TrainedOp<AttentionOp> : HasNoParameters {
    [[nodiscard]] static std::int64_t scratch(Operation const& op, BackwardBody const&, std::int64_t tokens) {
        return attention_backward_workspace(op.attention, tokens, tokens);
    }
    [[nodiscard]] static Result<> forward(TrainingWalk const& walk, Operation const& op, std::size_t number) {
        auto const in = parts_of(walk.value(op.inputs[0]), walk.value(op.inputs[1]), walk.value(op.inputs[2]), op);
        auto const out = walk.value(op.output);
        auto const log_sums = walk.log_sums(number);
        for (std::int64_t first = 0; first < walk.tokens; first += walk.sequence) {
            auto const rows = [&](TrainingWalk::Matrix of) { return of.rows(first, walk.sequence); };
            auto const done =
                attention<float, float>(TrainingWalk::ConstMatrix(rows(in.q)), TrainingWalk::ConstMatrix(rows(in.k)),
                                        TrainingWalk::ConstMatrix(rows(in.v)), rows(out), options_of(walk, op),
                                        walk.stream, {}, {}, walk.slopes, log_sums.empty() ? log_sums : rows(log_sums));
            if (!done) return done;
        }
        return {};
    }
    [[nodiscard]] static Result<> inputs(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                         GradientStep const& step) {
        auto const in = parts_of(walk.value(op.inputs[0]), walk.value(op.inputs[1]), walk.value(op.inputs[2]), op);
        auto const to =
            parts_of(walk.gradient(step.writes[0]), walk.gradient(step.writes[1]), walk.gradient(step.writes[2]), op);
        return attention_backward(
            {in.q, in.k, in.v, walk.value(op.output), walk.log_sums(number), walk.gradient(step.reads), walk.slopes},
            {to.q, to.k, to.v, step.is_added[0]}, options_of(walk, op), walk.scratch, walk.stream);
    }

private:
    struct Parts {
        TrainingWalk::Matrix q;
        TrainingWalk::Matrix k;
        TrainingWalk::Matrix v;
    };
    /// Queries, keys and values, also where they are columns of one value.
    [[nodiscard]] static Parts parts_of(TrainingWalk::Matrix q, TrainingWalk::Matrix k, TrainingWalk::Matrix v,
                                        Operation const& op) {
        if (op.inputs[0] != op.inputs[1]) return {q, k, v};
        auto const& shape = op.attention;
        auto const q_width = shape.heads * shape.key_dim;
        auto const k_width = shape.kv_heads * shape.key_dim;
        return {q.columns(0, q_width), q.columns(q_width, k_width),
                q.columns(q_width + k_width, shape.kv_heads * shape.value_dim)};
    }
    [[nodiscard]] static AttentionOptions options_of(TrainingWalk const& walk, Operation const& op) {
        AttentionOptions options;
        options.shape = op.attention;
        options.soft_cap = static_cast<float>(walk.model.config.attention_softcap);
        options.scale = score_scale(walk.model.config, op.attention, walk.block.number);
        return options;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
