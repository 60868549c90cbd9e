// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Columns of the input that a rank multiplies: its share where the input is sharded, else all that the operation reads.
[[nodiscard]] constexpr std::int64_t local_in_features(Operation const& op, OpContext const& context) {
    auto const columns = context.columns(op.inputs[0]);
    return columns < op.in_features ? columns : op.in_features;
}

/// in * weight^T + bias: two operations per row, input column and output column.
///
/// Shapes  in [m, k], weight [n, k], out [m, n]; a rank has n's share (column split) or k's (row split)
struct LinearOp : OpTraits<OpKind::linear, OpUnit::products, OpWeights::dense> {
    static constexpr std::string_view name = "linear";
    [[nodiscard]] static constexpr GradientRule gradient(Operation const& op, Span<Value const> values) {
        bool const is_whole = values[static_cast<std::size_t>(op.output)].spread == Spread::replicated;
        return {.has_gradient = {true},
                .parameters_read = {true},
                .parameter_spread = is_whole ? Spread::replicated : Spread::sharded};
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        auto const& out = context.value(op.output);
        // Sequence parallelism gathers the rows before a product and scatters them after it.
        auto const rows = out.rows == Rows::tokens ? context.step.tokens() : context.rows(out);
        auto const m = static_cast<double>(rows);
        auto const n = static_cast<double>(context.columns(op.output));
        auto const k = static_cast<double>(local_in_features(op, context));
        return {.flops = 2.0 * m * n * k + (op.parameters[1].empty() ? 0.0 : m * n),
                .traffic = static_cast<double>((context.bytes(op.inputs[0]) + context.bytes(op.output)).count())};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
