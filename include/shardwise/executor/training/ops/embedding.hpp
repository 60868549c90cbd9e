// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/kernels/backward/embedding.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
struct TrainedOp<EmbeddingOp> : NeedsNoScratch {
    [[nodiscard]] static Result<> forward(TrainingWalk const& walk, Operation const& op, std::size_t number) {
        auto const numbers = rows_of(walk, op);
        auto const table = table_of(walk.weight(number, 0), op);
        auto const out = walk.value(op.output);
        auto const look_up = [numbers, table, out, first = first_of(op)](std::int64_t begin, std::int64_t end) {
            for (auto token = begin; token < end; ++token) {
                auto const* const from = table.row(numbers.data()[token] + first);
                // Also makes +0 of -0, as the executor does.
                for (std::int64_t i = 0; i < out.extent(1); ++i) out.row(token)[i] = from[i] + 0.0F;
            }
        };
        Host::launch(out.extent(0), look_up, walk.stream);
        return {};
    }
    /// Ids have no gradient.
    [[nodiscard]] static Result<> inputs(TrainingWalk const&, Operation const&, std::size_t, GradientStep const&) {
        return {};
    }
    [[nodiscard]] static Result<> parameters(TrainingWalk const& walk, Operation const& op, std::size_t number,
                                             GradientStep const& step) {
        TrainingWalk::ConstMatrix const gradient = walk.gradient(step.reads);
        auto const table = walk.parameter_gradient(number, 0);
        TrainingWalk::Matrix const to(table.data(), {op.in_features, op.out_features});
        return embedding_backward(rows_of(walk, op), gradient, to, walk.adds(number, 0), walk.stream, -first_of(op));
    }

private:
    [[nodiscard]] static TensorView<std::int32_t const, 1, Host> rows_of(TrainingWalk const& walk, Operation const& op) {
        return op.index == TableIndex::position ? walk.positions : walk.ids;
    }
    [[nodiscard]] static std::int64_t first_of(Operation const& op) { return op.first_row; }
    [[nodiscard]] static TrainingWalk::ConstMatrix table_of(TrainingWalk::ConstVector weight, Operation const& op) {
        return {weight.data(), {op.in_features, op.out_features}};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
