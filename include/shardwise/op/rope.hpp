// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Rotary positions in place: two products and a sum per element.
///
/// Shapes  in and out [tokens, heads * head_dim], the same value
struct RopeOp : OpTraits<OpKind::rope, OpUnit::vectors> {
    static constexpr std::string_view name = "rope";
    [[nodiscard]] static constexpr GradientRule gradient(Operation const& op, Span<Value const>) {
        if (op.attention().latent > 0) return GradientRule::refused("MLA has no gradient yet");
        return {.has_gradient = {true}};
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        return {.flops = 3.0 * static_cast<double>(context.elements(op.output)),
                .traffic = 2.0 * static_cast<double>(context.bytes(op.output).count())};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
