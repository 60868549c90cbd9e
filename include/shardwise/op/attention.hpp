// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Pairs of a query and a key that it sees, for one sequence: query i of n sees the context up to itself, or the
/// window's part.
[[nodiscard]] constexpr double visible_pairs(AttentionShape const& shape, Step const& step) {
    auto const n = step.new_tokens;
    auto const total = static_cast<double>(n) * static_cast<double>(step.context);
    if (!shape.is_causal || shape.is_cross) return total;
    auto const past = step.context - n;
    auto const triangle = [](std::int64_t count, std::int64_t first) {
        // first + (first + 1) + ... over `count` terms
        return static_cast<double>(count) * (static_cast<double>(first) + static_cast<double>(count - 1) / 2.0);
    };
    if (shape.window <= 0 || !step.is_windowed || step.context <= shape.window) return triangle(n, past + 1);
    auto const growing = past >= shape.window ? 0 : shape.window - past;
    return triangle(growing, past + 1) + static_cast<double>(n - growing) * static_cast<double>(shape.window);
}

/// softmax(q k^T) v over the cache, block by block, so that the scores are never held whole.
///
/// Per pair and head: 2 * key_dim for the score, 5 for the softmax (scale, maximum, difference, exponential, sum),
/// 2 * value_dim for the values. Decoding over a cached latent works in the latent: 2 * latent twice.
///
/// Shapes  q [tokens, heads * key_dim], k and v [tokens, kv_heads * dim], out [tokens, heads * value_dim]
/// Memory  fp32 running maximum and sum of each query and head
/// Source  FlashAttention-2 (arXiv 2307.08691), section 3.1; absorbed MLA: DeepSeek-V2 (arXiv 2405.04434), section
///         2.1.2
struct AttentionOp : OpTraits<OpKind::attention, OpUnit::attention> {
    static constexpr std::string_view name = "attention";
    [[nodiscard]] static constexpr GradientRule gradient(Operation const& op, Span<Value const>) {
        auto const& shape = op.attention();
        if (shape.latent > 0) return GradientRule::refused("MLA has no gradient yet");
        if (shape.is_cross) return GradientRule::refused("cross-attention has no gradient yet");
        if (shape.chunk > 0 || shape.score_step > 0)
            return GradientRule::refused("attention to chunks (llama4) has no gradient yet");
        if (shape.bias_reach > 0) return GradientRule::refused("biases by distance have no gradient yet");
        if (!op.parameters[0].empty())
            return GradientRule::refused(
                "parameters that change scores (sinks, relative positions) have no gradient yet");
        return {.has_gradient = {true, true, true},
                .reads = {true, true, true},
                .reads_output = true,
                .is_made_together = true,
                .reads_log_sums = true};
    }

    /// Keys and values of the key-value heads, or the latent, which every rank needs whole; nothing of attentions without a past
    /// (bert).
    [[nodiscard]] static constexpr KeptHeads kept(Operation const& op, bool is_latent_cached) {
        auto const& shape = op.attention();
        if (!keeps_rows(shape)) return {};
        if (shape.latent > 0 && is_latent_cached) return {.key = shape.latent};
        return {.split = UnitSplit::kv(shape.kv_heads, shape.heads),
                .key = shape.key_dim,
                .value = shape.value_dim,
                .window = shape.window};
    }
    [[nodiscard]] static constexpr UnitSplit heads(Operation const& op) {
        return UnitSplit::qkv(op.attention().heads, op.attention().kv_heads);
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        auto const& shape = op.attention();
        auto const& step = context.step;
        auto const heads = static_cast<double>(context.share(shape.heads, op.output));
        bool const is_absorbed = shape.latent > 0 && step.is_latent_cached && step.new_tokens < step.context;
        auto const per_pair = is_absorbed ? 4.0 * static_cast<double>(shape.latent)
                                          : 2.0 * static_cast<double>(shape.key_dim + shape.value_dim);
        auto const pairs = static_cast<double>(step.batch) * visible_pairs(shape, step);
        auto const rows = kept(op, step.is_latent_cached);
        auto const cached =
            rows.heads(context.rank.tp, context.rank.tp_rank, context.grain(op.output)) * (rows.key + rows.value);
        bool const is_limited = shape.window > 0 && step.is_windowed && shape.window < step.context;
        auto const seen = is_limited ? shape.window : step.context;
        auto const past =
            is_limited && shape.window < step.context - step.new_tokens ? shape.window : step.context - step.new_tokens;
        auto const token_bytes = static_cast<double>(step.batch) * static_cast<double>(cached) *
                                 static_cast<double>(bits(step.kv_dtype)) / 8.0;
        Bytes inputs = context.bytes(op.inputs[0]);
        if (op.inputs[1] != op.inputs[0]) inputs += context.bytes(op.inputs[1]);
        if (op.inputs[2] != op.inputs[1]) inputs += context.bytes(op.inputs[2]);
        return {.flops = pairs * heads * (per_pair + 5.0),
                .traffic = static_cast<double>((inputs + context.bytes(op.output)).count()) +
                           token_bytes * static_cast<double>(shape.is_cross ? 0 : step.new_tokens),
                .kv_read = token_bytes * static_cast<double>(shape.is_cross ? seen : past),
                .workspace = Bytes{step.tokens() * context.share(shape.heads, op.output) * 2 * 4}};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
