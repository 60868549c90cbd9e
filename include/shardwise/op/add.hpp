// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/step.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// a + b: one operation per element.
///
/// Shapes  both inputs and out [rows, width]
[[nodiscard]] constexpr OpWork add_work(Operation const& op, OpContext const& context) {
    return {.flops = static_cast<double>(context.elements(context.value(op.output))),
            .traffic = static_cast<double>(
                (context.bytes(op.inputs[0]) + context.bytes(op.inputs[1]) + context.bytes(op.output)).count())};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
