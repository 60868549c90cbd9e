// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Memory of the order in which experts read rows: a 32-bit row number for each routed row, and each expert's first.
[[nodiscard]] constexpr Bytes routing_table_bytes(OpContext const& context) {
    return Bytes{4 * (context.routed_rows() + context.local_experts() + 1)};
}

/// The top-k experts of each token and their weights: a softmax over the experts (5 operations each) and k passes for
/// the largest.
///
/// Shapes  scores [tokens, experts], out [tokens, 2k]: numbers and weights
struct RouteOp : OpTraits<OpKind::route, OpUnit::vectors> {
    static constexpr std::string_view name = "route";
    [[nodiscard]] static constexpr GradientRule gradient(Operation const&, Span<Value const>) {
        return GradientRule::refused("routed experts have no gradient yet");
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        auto const scores = static_cast<double>(context.step.tokens()) * static_cast<double>(op.routing().experts);
        return {.flops = scores * (5.0 + static_cast<double>(op.routing().experts_per_token)),
                .traffic = static_cast<double>((context.bytes(op.inputs[0]) + context.bytes(op.output)).count())};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
