// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The same columns of every unit of a value: the queries of heads that each have a query and a gate.
///
/// Shapes  in [rows, units * in_features], out [rows, units * out_features]
struct PartOp : OpTraits<OpKind::part, OpUnit::vectors> {
    static constexpr std::string_view name = "part";
    [[nodiscard]] static constexpr GradientRule gradient(Operation const&, Span<Value const>) {
        return GradientRule::refused("parts of heads have no gradient yet");
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        return {.traffic = 2.0 * static_cast<double>(context.bytes(op.output).count())};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
