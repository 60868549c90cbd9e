// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/score_scale.hpp>
#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/backward/attention.hpp>
#include <shardwise/op/head_share.hpp>
#include <shardwise/parallel/attend_heads.hpp>
#include <shardwise/parallel/collectives.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Each sequence attends to itself.
template <>
struct TrainedOp<AttentionOp> : HasNoParameters {
    [[nodiscard]] static std::int64_t scratch(Operation const& op, BackwardBody const&, std::int64_t tokens) {
        return attention_backward_workspace(op.attention(), tokens, tokens);
    }
    [[nodiscard]] static Result<> forward(TrainingWalk const& walk, Operation const& op, std::size_t number) {
        auto const in = parts_of(walk.value(op.inputs[0]), walk.value(op.inputs[1]), walk.value(op.inputs[2]), op);
        auto const out = walk.value(op.output);
        auto const log_sums = walk.log_sums(number);
        auto const& shares = walk.block.operations[number].shares;
        auto const share = shares.empty()
                               ? HeadShare{{0, op.attention().heads}, {0, op.attention().kv_heads}, whole_group(op)}
                               : shares[static_cast<std::size_t>(walk.tensor->place.rank)];
        for (std::int64_t first = 0; first < walk.tokens; first += walk.sequence) {
            // Where the rank's heads are parts of groups, one part after another: a head's bits are the same.
            for (auto head = share.query.begin; head < share.query.end;) {
                auto const run = head_run(share, head);
                head = run.query.end;
                auto const part = [&](TrainingWalk::Matrix of, UnitRange heads, std::int64_t before,
                                      std::int64_t width) {
                    return of.columns((heads.begin - before) * width, heads.size() * width).rows(first, walk.sequence);
                };
                auto const of_queries = [&](TrainingWalk::Matrix of, std::int64_t width) {
                    return part(of, run.query, share.query.begin, width);
                };
                auto options = options_of(walk, op);
                options.shape.heads = run.query.size();
                options.shape.kv_heads = run.kv.size();
                auto const slopes = walk.slopes.empty()
                                        ? walk.slopes
                                        : walk.slopes.part(run.query.begin - share.query.begin, run.query.size());
                auto const done = attention<float, float>(
                    TrainingWalk::ConstMatrix(of_queries(in.q, op.attention().key_dim)),
                    TrainingWalk::ConstMatrix(part(in.k, run.kv, share.kv.begin, op.attention().key_dim)),
                    TrainingWalk::ConstMatrix(part(in.v, run.kv, share.kv.begin, op.attention().value_dim)),
                    of_queries(out, op.attention().value_dim), options, walk.stream, {}, {}, slopes,
                    log_sums.empty() ? log_sums : of_queries(log_sums, 1));
                if (!done) return done;
            }
        }
        return {};
    }
    [[nodiscard]] static Result<> inputs(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                         GradientStep const& step) {
        auto const in = parts_of(walk.value(op.inputs[0]), walk.value(op.inputs[1]), walk.value(op.inputs[2]), op);
        auto const to =
            parts_of(walk.gradient(step.writes[0]), walk.gradient(step.writes[1]), walk.gradient(step.writes[2]), op);
        if (!walk.block.operations[number].shares.empty()) return inputs_of_group(walk, op, number, step, in, to);
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
    /// Query heads that read one key-value head where none is shared.
    [[nodiscard]] static std::int64_t whole_group(Operation const& op) {
        return op.attention().heads / op.attention().kv_heads;
    }
    /// Of ranks that read one key-value head each has the gradients of its query heads, which all gather; their sum is attention_backward's.
    [[nodiscard]] static Result<> inputs_of_group(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                                  GradientStep const& step, Parts const& in, Parts const& to) {
        if (step.is_added[0])
            return Error{ErrorCode::unsupported}
                .in("attention")
                .because("adds to gradients of heads that tensor-parallel ranks share, which has no kernel");
        auto const& shape = op.attention();
        auto const& tensor = *walk.tensor;
        auto const& trained = walk.block.operations[number];
        auto const& share = trained.shares[static_cast<std::size_t>(tensor.place.rank)];
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
            auto const kv = (share.query.begin + head) / share.group - share.kv.begin;
            auto const done = attention_backward(
                {of(in.q, shape.key_dim), in.k.columns(kv * shape.key_dim, shape.key_dim),
                 in.v.columns(kv * shape.value_dim, shape.value_dim), of(walk.value(op.output), shape.value_dim),
                 of(walk.log_sums(number), 1), of(walk.gradient(step.reads), shape.value_dim), slopes},
                {of(to.q, shape.key_dim), k, v, false}, options, walk.scratch, walk.stream);
            if (!done) return done;
        }
        std::vector<std::int64_t> counts;
        for (auto const& each : trained.shares) counts.push_back(each.query.size() * size);
        submit_all_gather(
            *tensor.comm, TrainingWalk::ConstVector{tensor.first, {shape.heads * size}},
            TrainingWalk::Vector{tensor.staging, {trained.heads * size}},
            [counts](std::int32_t rank) { return counts[static_cast<std::size_t>(rank)]; }, walk.stream);
        auto const sum = [all = tensor.staging, size, to, share, keys, shape](std::int64_t begin, std::int64_t end) {
            auto const add_up = [&](float* group, std::int64_t at, std::int64_t width,
                                    TrainingWalk::Matrix const& result) {
                for (std::int64_t next = 1; next < share.group; next *= 2) {
                    for (std::int64_t head = 0; head + next < share.group; head += 2 * next) {
                        auto* const left = group + head * size + at;
                        auto const* const right = group + (head + next) * size + at;
                        for (auto i = begin * width; i < end * width; ++i) left[i] += right[i];
                    }
                }
                for (auto key = begin; key < end; ++key) std::copy_n(group + at + key * width, width, result.row(key));
            };
            for (auto kv = share.kv.begin; kv < share.kv.end; ++kv) {
                auto* const group = all + kv * share.group * size;
                auto const own = kv - share.kv.begin;
                add_up(group, 0, shape.key_dim, to.k.columns(own * shape.key_dim, shape.key_dim));
                add_up(group, keys * shape.key_dim, shape.value_dim,
                       to.v.columns(own * shape.value_dim, shape.value_dim));
            }
        };
        Host::launch(keys, sum, walk.stream);
        return {};
    }
    /// Queries, keys and values, also where they are columns of one value.
    [[nodiscard]] static Parts parts_of(TrainingWalk::Matrix q, TrainingWalk::Matrix k, TrainingWalk::Matrix v,
                                        Operation const& op) {
        if (op.inputs[0] != op.inputs[1]) return {q, k, v};
        auto const& shape = op.attention();
        auto const q_width = shape.heads * shape.key_dim;
        auto const k_width = shape.kv_heads * shape.key_dim;
        return {q.columns(0, q_width), q.columns(q_width, k_width),
                q.columns(q_width + k_width, shape.kv_heads * shape.value_dim)};
    }
    [[nodiscard]] static AttentionOptions options_of(TrainingWalk const& walk, Operation const& op) {
        AttentionOptions options;
        options.shape = op.attention();
        options.soft_cap = static_cast<float>(op.attention().soft_cap);
        options.scale = score_scale(walk.model.config, op.attention(), walk.block.number);
        return options;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
