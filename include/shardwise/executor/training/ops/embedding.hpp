// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/decoded_rows.hpp>
#include <shardwise/executor/training/ops/trained_op.hpp>
#include <shardwise/kernels/backward/embedding.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
struct TrainedOp<EmbeddingOp> : NeedsNoScratch {
    [[nodiscard]] static Result<> forward(TrainingWalk const& walk, Operation const& op, std::size_t number) {
        if (walk.block.operations[number].cut == TrainedCut::outputs) return forward_of_all(walk, op, number);
        auto const held = walk.parameter(number, 0).held;
        WordTable const table =
            held >= 0 ? WordTable{.held = &walk.held[held].own} : WordTable{.floats = walk.weight(number, 0).data()};
        look_up(rows_of(walk, op), table, walk.value(op.output), first_of(op), walk.stream);
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
        auto first = -first_of(op);
        auto rows = op.in_features;
        if (walk.block.operations[number].cut == TrainedCut::outputs) {
            // The others' rows are theirs.
            auto const own = split_units(rows, walk.tensor->place.ranks, walk.tensor->place.rank);
            first += own.begin;
            rows = own.size();
        }
        TrainingWalk::Matrix const to(table.data(), {rows, op.out_features});
        return embedding_backward(rows_of(walk, op), gradient, to, walk.adds(number, 0), walk.stream, first);
    }

private:
    /// A table of words: rows of floats, or those of a frozen weight, which are decoded where they are looked up.
    struct WordTable {
        float const* floats = nullptr;
        HeldProduct const* held = nullptr;

        /// Shapes  to [width]
        void copy_row(std::int64_t row, std::int64_t width, float* to) const {
            if (held != nullptr)
                decode_columns(held->source, row, held->columns, to);
            else
                std::copy_n(floats + row * width, width, to);
        }
    };

    /// This rank's columns of the rows of all ids, and then those of all ranks.
    [[nodiscard]] static Result<> forward_of_all(TrainingWalk const& walk, Operation const& op, std::size_t number) {
        auto const& tensor = *walk.tensor;
        auto const own = split_units(op.out_features, tensor.place.ranks, tensor.place.rank);
        auto const held = walk.parameter(number, 0).held;
        WordTable const table = held >= 0 ? WordTable{.held = &walk.held[held].turned}
                                          : WordTable{.floats = tensor.turned + walk.block.operations[number].turned};
        for (std::int64_t at = 0; at < walk.tokens; at += walk.sequence) {
            TrainingWalk::Matrix const made(tensor.share, {walk.sequence, own.size()});
            look_up(rows_of(walk, op).part(at, walk.sequence), table, made, first_of(op), walk.stream);
            gather_columns(tensor, made, shared_evenly(op.out_features, tensor.place),
                           walk.value(op.output).rows(at, walk.sequence), walk.stream);
        }
        return {};
    }
    static void look_up(TensorView<std::int32_t const, 1, Host> numbers, WordTable table, TrainingWalk::Matrix out,
                        std::int64_t first, HostStream& stream) {
        auto const copy = [numbers, table, out, first](std::int64_t begin, std::int64_t end) {
            for (auto token = begin; token < end; ++token) {
                auto* const to = out.row(token);
                table.copy_row(numbers.data()[token] + first, out.extent(1), to);
                // +0 of -0, as the executor makes it.
                for (std::int64_t i = 0; i < out.extent(1); ++i) to[i] += 0.0F;
            }
        };
        Host::launch(out.extent(0), copy, stream);
    }
    [[nodiscard]] static TensorView<std::int32_t const, 1, Host> rows_of(TrainingWalk const& walk,
                                                                         Operation const& op) {
        return op.table().index == TableIndex::position ? walk.positions : walk.ids;
    }
    [[nodiscard]] static std::int64_t first_of(Operation const& op) { return op.table().first_row; }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
