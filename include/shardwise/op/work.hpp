// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/visit_op.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What any operation costs on one rank.
[[nodiscard]] constexpr OpWork op_work(Operation const& op, OpContext const& context) {
    return visit_op(op.kind, [&](auto of) { return of.work(op, context); });
}

/// What an operation keeps of each sequence from step to step.
[[nodiscard]] constexpr KeptHeads kept_heads(Operation const& op, bool is_latent_cached = true) {
    return visit_op(op.kind, [&](auto of) { return of.kept(op, is_latent_cached); });
}
/// The heads that tensor-parallel ranks share in an operation; replicated where it has none.
[[nodiscard]] constexpr UnitSplit heads_of(Operation const& op) {
    return visit_op(op.kind, [&](auto of) { return of.heads(op); });
}

/// What the struct of a kind says of it.
[[nodiscard]] constexpr std::string_view name_of(OpKind kind) {
    return visit_op(kind, [](auto of) { return of.name; });
}
[[nodiscard]] constexpr bool is_element_wise(OpKind kind) {
    return visit_op(kind, [](auto of) { return of.is_element_wise; });
}
[[nodiscard]] constexpr OpUnit unit_of(OpKind kind) {
    return visit_op(kind, [](auto of) { return of.unit; });
}
[[nodiscard]] constexpr OpWeights weights_of(OpKind kind) {
    return visit_op(kind, [](auto of) { return of.weights; });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
