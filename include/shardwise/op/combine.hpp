// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/route.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The weighted sum of each token's experts: a product and a sum per routed element.
///
/// Shapes  in [routed, width], out [tokens, width]
/// Memory  the routing table
struct CombineOp : OpTraits<OpKind::combine, OpUnit::vectors> {
    static constexpr std::string_view name = "combine";
    static constexpr bool keeps_partial(Operation const&, bool, bool) { return true; }

    [[nodiscard]] static constexpr GradientRule gradient(Operation const&, Span<Value const>) {
        return GradientRule::refused("routed experts have no gradient yet");
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        return {.flops = 2.0 * static_cast<double>(context.elements(op.inputs[0])),
                .traffic = static_cast<double>((context.bytes(op.inputs[0]) + context.bytes(op.output)).count()),
                .workspace = routing_table_bytes(context)};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
