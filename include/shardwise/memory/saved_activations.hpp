// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/memory/activations.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The forward pass of a training step: every token of the batch at once, each of them scored.
[[nodiscard]] constexpr Step training_step(EstimateRequest const& request, ModelConfig const& config) {
    auto step = step_of(Phase::prefill, request, config);
    step.is_training = true;
    return step;
}

namespace detail {

/// True for operations whose backward pass reads what the forward pass read.
[[nodiscard]] constexpr bool needs_inputs(OpKind kind) {
    switch (kind) {
        case OpKind::embedding:
        case OpKind::rope:
        case OpKind::add:
        case OpKind::last_token: return false;
        case OpKind::norm:
        case OpKind::linear:
        case OpKind::attention:
        case OpKind::activation:
        case OpKind::route:
        case OpKind::experts:
        case OpKind::combine: return true;
    }
    return true;
}

/// Attention probabilities that a pass without blocked softmax keeps; saturates where no memory could hold them.
[[nodiscard]] constexpr std::int64_t probability_bytes(Operation const& op, OpContext const& context) {
    auto const& step = context.step;
    auto const rows = checked_multiply(step.tokens(), step.context);
    auto const heads = rows ? checked_multiply(*rows, context.share(op.attention.heads)) : rows;
    auto const total = heads ? checked_multiply(*heads, bits(step.dtype) / 8) : heads;
    constexpr auto limit = std::int64_t{1} << 50U;
    return total && *total < limit ? *total : limit;
}

}  // namespace detail

/// What one block keeps of its forward pass for the backward pass: the values that its operations' gradients read, each
/// once. Without recomputation that includes the attention's probabilities (one copy in the activations' type);
/// selective recomputation makes those again; full keeps the block's input only.
///
/// Source  the division into none, selective and full: Korthikanti et al., 2022, section 5
[[nodiscard]] constexpr Bytes saved_activations(BlockBody const& body, OpContext const& context, Recompute recompute) {
    auto const& values = body.values();
    if (recompute == Recompute::full) return values[0].width == 1 ? Bytes{0} : context.bytes(values[0]);
    List<std::int64_t> is_needed(values.size(), 0);  // not bool: clang 14 cannot evaluate that vector
    Bytes total{0};
    for (auto const& op : body.operations()) {
        if (!detail::needs_inputs(op.kind)) continue;
        for (auto const id : op.inputs) {
            if (id != no_value) is_needed[static_cast<std::size_t>(id)] = 1;
        }
        // A norm in place overwrites what its gradient needs: the input is kept as well.
        if (op.kind == OpKind::norm && op.output == op.inputs[0]) total += context.bytes(op.output);
        if (op.kind != OpKind::attention) continue;
        is_needed[static_cast<std::size_t>(op.output)] = 1;
        total += op_work(op, context).workspace;
        if (recompute == Recompute::none) total += Bytes{detail::probability_bytes(op, context)};
    }
    for (std::size_t id = 0; id < values.size(); ++id) {
        if (is_needed[id] != 0 && !values[id].is_external) total += context.bytes(values[id]);
    }
    return total;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
