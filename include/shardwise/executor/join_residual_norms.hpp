// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/held_block.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Where a value of a block lies in the arena in the largest step.
[[nodiscard]] inline UnitRange arena_range(ActivationPlan const& plan, ValueId id) {
    auto const item = static_cast<std::size_t>(plan.item_of[static_cast<std::size_t>(id)]);
    auto const begin = plan.layout.offsets[item].count();
    return {begin, begin + plan.items[item].size.count()};
}

/// The input of an addition that a norm after it can add to the other one, in whose place the sum lies: its number; -1 where the norm
/// has to read the sum. A row of what the norm makes is written when the row of that input has been read, so that both may lie in
/// one place, but not in two that overlap.
template <ComputeBackend Backend, ReductionPolicy Policy>
[[nodiscard]] int joined_input(std::span<BoundOperation<Backend, Policy> const> pair, ActivationPlan const& plan) {
    auto const& add = pair[0];
    auto const& next = pair[1];
    if (add.op->kind != OpKind::add || next.op->kind != OpKind::norm || next.op->inputs[0] != add.op->output) return -1;
    auto const& norm = std::get<HeldNorm<Backend>>(next.held);
    bool const is_of_rows = !norm.share && !norm.is_first_part && !norm.has_head_weights;
    bool const is_in_float = add.output.is_in_float || next.output.is_in_float;
    bool const is_plain = is_of_rows && !is_in_float && !norm.is_layer && norm.width == add.output.width;
    if (!is_plain || next.output.data == add.output.data || next.output.rows == Rows::routed) return -1;
    for (int joined = 0; joined < 2; ++joined) {
        auto const& part = add.inputs[static_cast<std::size_t>(joined)];
        if (add.inputs[static_cast<std::size_t>(1 - joined)].data != add.output.data || part.data == add.output.data)
            continue;
        auto const from = arena_range(plan, add.op->inputs[static_cast<std::size_t>(joined)]);
        auto const to = arena_range(plan, next.op->output);
        if (part.data == next.output.data || from.end <= to.begin || to.end <= from.begin) return joined;
    }
    return -1;
}

/// Lets the norms of a bound block do what the addition right before them does, in the same pass over memory
/// (kernels/residual_norm.hpp), where values lie so that they can. The bits are those of one after the other.
template <ComputeBackend Backend, ReductionPolicy Policy>
void join_residual_norms(HeldBlock<Backend, Policy>& block, ActivationPlan const& plan) {
    std::span<BoundOperation<Backend, Policy>> const all(block.operations);
    for (std::size_t number = 0; number + 1 < all.size(); ++number) {
        auto const joined = joined_input<Backend, Policy>(all.subspan(number, 2), plan);
        if (joined < 0) continue;
        all[number].is_joined = true;
        all[number + 1].addend = all[number].inputs[static_cast<std::size_t>(joined)];
    }
}

/// Says where a block's values lie, and what follows from it.
template <ComputeBackend Backend, ReductionPolicy Policy>
void bind_block(HeldBlock<Backend, Policy>& block, PlannedBody const& planned, std::byte* arena) {
    block.bind(planned, arena);
    join_residual_norms(block, planned.plan);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
