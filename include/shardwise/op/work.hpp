// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/visit_op.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What any operation costs on one rank.
[[nodiscard]] constexpr OpWork op_work(Operation const& op, OpContext const& context) {
    return visit_op(op.kind, [&](auto of) { return of.work(op, context); });
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
