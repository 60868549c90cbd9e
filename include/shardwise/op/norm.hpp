// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// True for a norm whose rows are sharded: tensor-parallel ranks add up their squares. `made` is what it makes.
[[nodiscard]] constexpr bool spans_ranks(Operation const& op, Value const& made) {
    return op.kind == OpKind::norm && made.spread == Spread::sharded && made.split.all_units() > 1 &&
           !op.norm().is_first_part && op.in_features == made.width;
}

/// What ranks add up for each row of such a norm: its squares, in three floats on a device. The host's double is less.
[[nodiscard]] constexpr Bytes square_bytes(std::int64_t rows) {
    return Bytes{12 * rows};
}

/// A norm over the last axis, or over each head of it, with one weight or one for each head.
///
/// Shapes  in and out [rows, width]
/// Memory  where ranks add up their squares, square_bytes
/// Units   operations per element: rms 4 (square, sum, scale, weight), layer 7 (sum, centre, square, sum, scale,
///         weight, bias)
struct NormOp : OpTraits<OpKind::norm, OpUnit::vectors> {
    static constexpr std::string_view name = "norm";
    static constexpr bool is_element_wise = true;  // a row at a time

    [[nodiscard]] static constexpr GradientRule gradient(Operation const& op, Span<Value const> values) {
        if (op.norm().is_first_part)
            return GradientRule::refused("a norm of a part of a row (MLA) has no gradient yet");
        if (op.norm().has_head_weights)
            return GradientRule::refused("a norm with a weight for each head has no gradient yet");
        auto const& made = values[static_cast<std::size_t>(op.output)];
        // One weight for all heads, of which a rank has some: each has a summand.
        auto const spread = made.spread != Spread::sharded ? Spread::replicated
                            : spans_ranks(op, made)        ? Spread::sharded
                                                           : Spread::partial;
        return {.has_gradient = {true}, .reads = {true}, .parameters_read = {true}, .parameter_spread = spread};
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        auto const& value = context.value(op.output);
        bool const is_summed = context.rank.tp > 1 && spans_ranks(op, value);
        return {.flops = (is_layer_norm(op.norm().kind) ? 7.0 : 4.0) * static_cast<double>(context.elements(op.output)),
                .traffic = static_cast<double>((context.bytes(op.inputs[0]) + context.bytes(op.output)).count()),
                .workspace = is_summed ? square_bytes(context.rows(value)) : Bytes{}};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
