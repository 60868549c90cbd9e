// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/traffic.hpp>
#include <shardwise/executor/training/gathered_columns.hpp>
#include <shardwise/executor/training/recomputation.hpp>
#include <shardwise/executor/training/training_program.hpp>
#include <shardwise/kernels/backward/cross_entropy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a tensor-parallel rank takes from the others for a sequence of `tokens` tokens: in its forward pass, and in its backward pass.
struct PassTraffic {
    CollectiveTraffic forward;
    CollectiveTraffic backward;
};

/// Counts it from the program alone; `is_split` where backward passes are in two parts.
[[nodiscard]] inline PassTraffic pass_traffic(TrainingProgram const& program, std::int64_t tokens, Recompute recompute,
                                              bool is_split = false) {
    PassTraffic out;
    std::vector<BackwardPart> parts{BackwardPart::whole};
    if (is_split) parts = {BackwardPart::inputs, BackwardPart::parameters};
    auto const& place = program.place();
    for (auto const& block : program.blocks()) {
        auto const& shared = program.shared(block);
        auto const& body = program.body(block);
        auto const of = [&](ValueId id) -> SharedValue const& { return shared[static_cast<std::size_t>(id)]; };
        auto const whole = [&](ValueId id) { return detail::gather_traffic(of(id), tokens, place.rank); };
        auto const of_width = [&](std::int64_t width) {
            return detail::gather_traffic(detail::shared_evenly(width, place), tokens, place.rank);
        };
        auto const evenly = [&](ValueId id) { return of_width(of(id).width); };
        // A norm of whole rows, of which each rank has some columns.
        auto const spans_shared = [&](Operation const& op) {
            return op.kind == OpKind::norm && !shared.empty() && !of(op.inputs[0]).is_whole() &&
                   op.in_features == of(op.inputs[0]).width;
        };
        auto const run = [&](std::size_t number, CollectiveTraffic& sum) {
            auto const& op = body.forward.operations()[number];
            auto const cut = block.operations[number].cut;
            if (op.kind == OpKind::embedding && cut == TrainedCut::outputs) sum += of_width(op.out_features);
            if (spans_shared(op)) sum += whole(op.inputs[0]);
            if (cut != TrainedCut::inputs) return;
            sum += whole(op.inputs[0]);
            sum += evenly(op.output);
        };
        for (std::size_t i = 0; i < body.forward.operations().size(); ++i) run(i, out.forward);
        for (auto const part : parts) {
            for (auto const& again : plan_recomputation(body, recompute, part).again)
                run(again.operation, out.backward);
        }
        for (auto const& step : body.steps) {
            if (shared.empty()) break;
            if (step.part == GradientPart::reduction && step.spread == Spread::partial)
                out.backward += evenly(step.reads);
            if (step.of < 0) continue;
            auto const number = static_cast<std::size_t>(step.of);
            auto const& op = body.forward.operations()[number];
            bool const is_of_inputs = step.part == GradientPart::inputs;
            auto const& trained = block.operations[number];
            if (!trained.shares.empty()) {
                auto const head = tokens * (op.attention().key_dim + op.attention().value_dim);
                auto const others = (trained.heads - op.attention().heads) * head;
                out.backward += {1, 1, others * static_cast<std::int64_t>(sizeof(float))};
            }
            if (is_of_inputs && block.operations[number].cut == TrainedCut::outputs) out.backward += whole(step.reads);
            if (op.kind != OpKind::norm || of(op.inputs[0]).is_whole()) continue;
            if (is_of_inputs && !spans_shared(op)) continue;
            out.backward += whole(op.inputs[0]);
            out.backward += whole(step.reads);
        }
    }
    if (!program.has_head()) return out;
    auto const& head = program.head();
    for (std::int64_t first = 0; first < tokens; first += HeadLossOptions{}.chunk) {
        auto const count = std::min(HeadLossOptions{}.chunk, tokens - first);
        auto const of_width = [&](std::int64_t width) {
            return detail::gather_traffic(detail::shared_evenly(width, place), count, place.rank);
        };
        // Each part makes the logits, but for gradients of parameters where the head has none.
        for (std::size_t i = 0; i < (head.weight.is_frozen ? 1 : parts.size()); ++i)
            out.backward += of_width(head.vocabulary);
        out.backward += of_width(head.hidden);
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
