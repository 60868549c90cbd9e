// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/step.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Rotary positions in place: two products and a sum per element.
///
/// Shapes  in and out [tokens, heads * head_dim], the same value
[[nodiscard]] constexpr OpWork rope_work(Operation const& op, OpContext const& context) {
    return {.flops = 3.0 * static_cast<double>(context.elements(context.value(op.output))),
            .traffic = 2.0 * static_cast<double>(context.bytes(op.output).count())};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
