// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/trace_ring.hpp>
#include <shardwise/executor/activation_element.hpp>
#include <shardwise/executor/move_values.hpp>
#include <shardwise/executor/ops/executed_ops.hpp>
#include <shardwise/op/work.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// walk_block with activations of one type.
template <ActivationElement T, ComputeBackend Backend, ReductionPolicy Policy, Communicator C>
[[nodiscard]] Result<> walk_block_as(HeldBlock<Backend, Policy> const& block, StepView<Backend> const& step,
                                     WalkState<Backend>& state, C& comm, ExpertParallel<Backend, C>* exchange,
                                     typename Backend::Stream& stream) {
    BlockWalk<Backend, Policy, C, T> walk{
        block, step, state, comm, exchange, stream, step.table.tokens(), step.table.sequences()};
    state.counted.choice = no_value;
    if (block.operations.empty()) return {};
    if (auto const in = walk.view(block.input); !block.reads_ids && state.hidden != block.input.data) {
        // The block before left its result at the place of its own output.
        auto const* const from = reinterpret_cast<T const*>(state.hidden);
        auto const moved = move_values<Backend>(from, in.data(), in.elements(), stream);
        if (!moved) return moved;
    }
    for (auto const& bound : block.operations) {
        // What other ranks' experts make is computed once their rows have come.
        bool const is_later = exchange != nullptr && walk.is_routed(bound);
        step.tracer([&](TraceRing& ring) {
            ring.begin_operation(name_of(bound.op->kind), bound.op->parameters[0], block.is_layer ? block.number : -1);
        });
        auto const done =
            is_later ? Result<>{}
                     : visit_executed<Backend, Policy>(bound.op->kind, [&](auto of) { return of.run(walk, bound); });
        if (!done) return done;
        step.tracer([&](TraceRing& ring) {
            auto const size = static_cast<std::int64_t>(bound.output.is_in_float ? sizeof(float) : sizeof(T));
            ring.end_operation(walk.view(bound.output).elements() * size);
        });
    }
    state.hidden = block.operations.back().output.data;
    return {};
}

}  // namespace detail

/// Computes one block: its input is where the walk left the hidden state, its output where the walk finds it. `exchange` is null
/// where the rank has all experts.
template <ComputeBackend Backend, ReductionPolicy Policy, Communicator C>
[[nodiscard]] Result<> walk_block(HeldBlock<Backend, Policy> const& block, StepView<Backend> const& step,
                                  WalkState<Backend>& state, C& comm, ExpertParallel<Backend, C>* exchange,
                                  typename Backend::Stream& stream) {
    return visit_activations<Backend>(step.activations, [&]<class T>(T) {
        return detail::walk_block_as<T>(block, step, state, comm, exchange, stream);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
