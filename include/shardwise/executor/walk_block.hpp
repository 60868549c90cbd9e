// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/trace_ring.hpp>
#include <shardwise/executor/move_values.hpp>
#include <shardwise/executor/ops/executed_ops.hpp>
#include <shardwise/op/work.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Computes one block: its input is where the walk left the hidden state, its output where the walk finds it. `exchange` is null
/// where the rank has all experts.
template <ComputeBackend Backend, ReductionPolicy Policy, Communicator C>
[[nodiscard]] Result<> walk_block(Model const& model, HeldBlock<Backend, Policy> const& block,
                                  StepView<Backend> const& step, WalkState<Backend>& state, C& comm,
                                  ExpertParallel<Backend, C>* exchange, typename Backend::Stream& stream) {
    detail::BlockWalk<Backend, Policy, C> walk{model, block,    step,   state,
                                               comm,  exchange, stream, BlockValues<Backend, Policy>(block, step)};
    state.counted.choice = no_value;
    auto const& operations = block.program->operations();
    if (operations.empty()) return {};
    bool const reads_ids = operations.front().kind == OpKind::embedding && operations.front().inputs[0] == 0 &&
                           block.program->values()[0].width == 1;
    if (auto const in = walk.view(0); !reads_ids && state.hidden != in.data()) {
        // The block before left its result at the place of its own output.
        auto const moved = move_values<Backend>(state.hidden, in.data(), in.elements(), stream);
        if (!moved) return moved;
    }
    std::size_t number = 0;
    for (auto const& op : operations) {
        // What other ranks' experts make is computed once their rows have come.
        bool const is_later = exchange != nullptr && walk.is_routed(op);
        step.tracer([&](TraceRing& ring) {
            ring.begin_operation(name_of(op.kind), op.parameters[0], block.is_layer ? block.number : -1);
        });
        auto const done = is_later ? Result<>{} : detail::visit_executed<Backend, Policy>(op.kind, [&](auto of) {
            return of.run(walk, op, number);
        });
        if (!done) return done;
        step.tracer([&](TraceRing& ring) { ring.end_operation(walk.view(op.output).elements() * 4); });
        ++number;
    }
    state.hidden = walk.view(operations.back().output).data();
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
