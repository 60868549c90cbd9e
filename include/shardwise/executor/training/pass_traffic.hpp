// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/traffic.hpp>
#include <shardwise/executor/training/gathered_columns.hpp>
#include <shardwise/executor/training/recomputation.hpp>
#include <shardwise/executor/training/training_program.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a tensor-parallel rank takes from the others for a sequence of `tokens` tokens: in its forward pass, and in its backward pass.
struct PassTraffic {
    CollectiveTraffic forward;
    CollectiveTraffic backward;
};

/// Counts it from the program alone.
[[nodiscard]] inline PassTraffic pass_traffic(TrainingProgram const& program, std::int64_t tokens, Recompute recompute) {
    PassTraffic out;
    auto const& place = program.place();
    for (auto const& block : program.blocks()) {
        auto const& shared = program.shared(block);
        if (shared.empty()) continue;
        auto const& body = program.body(block);
        auto const of = [&](ValueId id) -> SharedValue const& { return shared[static_cast<std::size_t>(id)]; };
        auto const whole = [&](ValueId id) { return gather_traffic(of(id), tokens, place.rank); };
        auto const evenly = [&](ValueId id) {
            return gather_traffic(shared_evenly(of(id).width, place), tokens, place.rank);
        };
        auto const run = [&](std::size_t number, CollectiveTraffic& sum) {
            auto const& op = body.forward.operations()[number];
            if (block.operations[number].cut != TrainedCut::inputs) return;
            sum += whole(op.inputs[0]);
            sum += evenly(op.output);
        };
        for (std::size_t i = 0; i < body.forward.operations().size(); ++i) run(i, out.forward);
        for (auto const& again : plan_recomputation(body, recompute).again) run(again.operation, out.backward);
        for (auto const& step : body.steps) {
            if (step.part == GradientPart::reduction && step.spread == Spread::partial)
                out.backward += evenly(step.reads);
            if (step.of < 0) continue;
            auto const number = static_cast<std::size_t>(step.of);
            auto const& op = body.forward.operations()[number];
            bool const is_of_inputs = step.part == GradientPart::inputs;
            if (is_of_inputs && block.operations[number].cut == TrainedCut::outputs) out.backward += whole(step.reads);
            if (is_of_inputs || op.kind != OpKind::norm || of(op.inputs[0]).is_whole()) continue;
            out.backward += whole(op.inputs[0]);
            out.backward += whole(step.reads);
        }
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
