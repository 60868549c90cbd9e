// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The last (or first) row of each sequence, copied.
///
/// Shapes  in [tokens, width], out [sequences, width]
struct LastTokenOp : OpTraits<OpKind::last_token, OpUnit::vectors> {
    static constexpr std::string_view name = "last_token";
    /// In training every token is scored: the rows are those of the input.
    [[nodiscard]] static constexpr GradientRule gradient(Operation const& op, Span<Value const>) {
        if (op.takes_first) return GradientRule::refused("a pooled first token has no gradient yet");
        return {.has_gradient = {true}};
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        return {.traffic = 2.0 * static_cast<double>(context.bytes(op.output).count())};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
