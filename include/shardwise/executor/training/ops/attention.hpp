// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/score_scale.hpp>
#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/backward/attention.hpp>
#include <shardwise/parallel/collectives.hpp>

#include <algorithm>
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
        if (walk.block.operations[number].group > 0) return inputs_of_group(walk, op, number, step, in, to);
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
    /// Of ranks that read one key-value head each has the gradients of its query heads, which all gather; their sum is attention_backward's.
    [[nodiscard]] static Result<> inputs_of_group(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                                  GradientStep const& step, Parts const& in, Parts const& to) {
        if (step.is_added[0])
            return Error{ErrorCode::unsupported}
                .in("attention")
                .because("adds to gradients of heads that tensor-parallel ranks share, which has no kernel");
        auto const& shape = op.attention;
        auto const& tensor = *walk.tensor;
        auto const& trained = walk.block.operations[number];
        auto const keys = walk.tokens;
        auto const size = keys * (shape.key_dim + shape.value_dim);
        auto options = options_of(walk, op);
        options.shape.heads = options.shape.kv_heads = 1;
        for (std::int64_t head = 0; head < shape.heads; ++head) {
            auto const of = [head](TrainingWalk::Matrix all, std::int64_t width) {
                return all.columns(head * width, width);
            };
            auto* const own = tensor.first + head * size;
            TrainingWalk::Matrix const k(own, {keys, shape.key_dim});
            TrainingWalk::Matrix const v(own + keys * shape.key_dim, {keys, shape.value_dim});
            auto const slopes = walk.slopes.empty() ? walk.slopes : walk.slopes.part(head, 1);
            auto const done = attention_backward(
                {of(in.q, shape.key_dim), in.k, in.v, of(walk.value(op.output), shape.value_dim),
                 of(walk.log_sums(number), 1), of(walk.gradient(step.reads), shape.value_dim), slopes},
                {of(to.q, shape.key_dim), k, v, false}, options, walk.scratch, walk.stream);
            if (!done) return done;
        }
        submit_all_gather(
            *tensor.comm, TrainingWalk::ConstVector{tensor.first, {shape.heads * size}},
            TrainingWalk::Vector{tensor.staging, {trained.heads * size}},
            [count = shape.heads * size](std::int32_t) { return count; }, walk.stream);
        auto* const group = tensor.staging + trained.first_head / trained.group * trained.group * size;
        auto const sum = [group, size, to, heads = trained.group, keys, shape](std::int64_t begin, std::int64_t end) {
            auto const add_up = [&](std::int64_t at, std::int64_t width, TrainingWalk::Matrix const& result) {
                for (std::int64_t next = 1; next < heads; next *= 2) {
                    for (std::int64_t head = 0; head + next < heads; head += 2 * next) {
                        auto* const left = group + head * size + at;
                        auto const* const right = group + (head + next) * size + at;
                        for (auto i = begin * width; i < end * width; ++i) left[i] += right[i];
                    }
                }
                for (auto key = begin; key < end; ++key) std::copy_n(group + at + key * width, width, result.row(key));
            };
            add_up(0, shape.key_dim, to.k);
            add_up(keys * shape.key_dim, shape.value_dim, to.v);
        };
        Host::launch(keys, sum, walk.stream);
        return {};
    }
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
        options.soft_cap = static_cast<float>(op.attention.soft_cap);
        options.scale = score_scale(walk.model.config, op.attention, walk.block.number);
        return options;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
