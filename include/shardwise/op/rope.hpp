#pragma once

#include <shardwise/op/step.hpp>

#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// Rotary positions in place: two products and a sum per element.
///
/// Shapes  in and out [tokens, heads * head_dim], the same value
[[nodiscard]] constexpr OpWork rope_work(Operation const& op, OpContext const& context) {
    return {.flops = 3.0 * static_cast<double>(context.elements(context.value(op.output))),
            .traffic = 2.0 * static_cast<double>(context.bytes(op.output).count())};
}

}  // namespace shardwise::inline v0_2_0
