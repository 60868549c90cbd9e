// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/route.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One linear per expert over the rows routed to it: tokens * k rows in all, never tokens * experts. With expert
/// parallelism a rank is priced for the worst case, that every token chooses its experts.
///
/// Shapes  in [tokens, k] in token order or [routed, k], weights [experts, n, k], out [routed, n]
/// Memory  the routing table; rows are read where they lie
struct ExpertsOp : OpTraits<OpKind::experts, OpUnit::products, OpWeights::experts> {
    static constexpr std::string_view name = "experts";
    [[nodiscard]] static constexpr GradientRule gradient(Operation const&, Span<Value const>) {
        return GradientRule::refused("routed experts have no gradient yet");
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        auto const columns = context.columns(op.inputs[0]);
        auto const k = static_cast<double>(columns < op.in_features ? columns : op.in_features);
        auto const m = static_cast<double>(context.routed_rows());
        auto const n = static_cast<double>(context.columns(op.output));
        auto const element = static_cast<double>(bits(context.step.dtype)) / 8.0;
        return {.flops = 2.0 * m * n * k + (op.parameters[1].empty() ? 0.0 : m * n),
                .traffic = m * k * element + static_cast<double>(context.bytes(op.output).count()),
                .workspace = routing_table_bytes(context)};
    }
};

/// Experts that read their weights in a step: no more than there are rows.
[[nodiscard]] constexpr std::int64_t experts_touched(OpContext const& context) {
    auto const rows = context.routed_rows();
    auto const local = context.local_experts();
    return rows < local ? rows : local;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
