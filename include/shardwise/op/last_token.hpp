// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The last (or first) row of each sequence, copied; or the mean of its rows, summed in their order in double.
///
/// Shapes  in [tokens, width], out [sequences, width]
struct LastTokenOp : OpTraits<OpKind::last_token, OpUnit::vectors> {
    static constexpr std::string_view name = "last_token";
    /// In training every token is scored: the rows are those of the input.
    [[nodiscard]] static constexpr GradientRule gradient(Operation const& op, Span<Value const>) {
        switch (op.taken_row()) {
            case TakenRow::last:
                break;
            case TakenRow::first:
                return GradientRule::refused("a pooled first token has no gradient yet");
            case TakenRow::mean:
                return GradientRule::refused("a mean of tokens has no gradient yet");
        }
        return {.has_gradient = {true}};
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        auto const out = static_cast<double>(context.bytes(op.output).count());
        if (op.taken_row() != TakenRow::mean) return {.traffic = 2.0 * out};
        return {.flops = static_cast<double>(context.elements(op.inputs[0])),
                .traffic = static_cast<double>(context.bytes(op.inputs[0]).count()) + out};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
