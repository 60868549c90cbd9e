// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The gated delta rule: of each value head a matrix S of key_dim rows, which every token decays and corrects,
///
///     S = exp(g) S;  S = S + k (beta (v - k S));  out = q S
///
/// with g = -exp(A_log) softplus(a + dt_bias) and beta = sigmoid(b); q, k and v come through a convolution over the last tokens of
/// each channel and silu, q and k are divided by their lengths. The result is normalised by head and gated by silu(z).
///
/// Shapes  inputs [tokens, key_heads * (2 key_dim + 2 value_columns)] (of each key head q, k, v, z) and [tokens, 2 value_heads]
///         (of each key head b, a); out [tokens, value_heads * value_dim]; parameters: the convolution [channels, 1, kernel] of all
///         q, all k and all v, dt_bias and A_log [value_heads], the norm [value_dim]
/// Source  Yang et al., Gated Delta Networks, arXiv 2412.06464
struct GatedDeltaOp : OpTraits<OpKind::gated_delta, OpUnit::vectors> {
    static constexpr std::string_view name = "gated_delta";
    [[nodiscard]] static constexpr GradientRule gradient(Operation const&, Span<Value const>) {
        return GradientRule::refused("the gated delta rule has no gradient yet");
    }

    /// The convolution's last inputs, and the matrices of a key head's value heads.
    [[nodiscard]] static constexpr KeptHeads kept(Operation const& op, bool) {
        return {.split = heads(op), .state = op.delta().state_elements(1)};
    }
    [[nodiscard]] static constexpr UnitSplit heads(Operation const& op) {
        return UnitSplit::units(op.delta().key_heads);
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        auto const& shape = op.delta();
        auto const heads = static_cast<double>(context.share(shape.key_heads, op.output));
        auto const tokens = static_cast<double>(context.step.tokens());
        auto const convolved = static_cast<double>(shape.channels() * (2 * shape.kernel + 4));
        // Decay, k S, the correction, q S: 1, 2, 2 and 2 for each element of a matrix.
        auto const ruled = 7.0 * static_cast<double>(shape.values_per_key() * shape.key_dim * shape.value_dim);
        auto const state = kept(op, true);
        auto const own = state.heads(context.rank.tp, context.rank.tp_rank, context.grain(op.output));
        auto const states = static_cast<double>(context.step.batch) * static_cast<double>(4 * own * state.state);
        Bytes const moved = context.bytes(op.inputs[0]) + context.bytes(op.inputs[1]) + context.bytes(op.output);
        return {.flops = tokens * heads * (convolved + ruled + 9.0 * static_cast<double>(shape.value_columns())),
                .traffic = static_cast<double>(moved.count()) + states,
                .kv_read = states};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
