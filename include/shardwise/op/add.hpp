#pragma once

#include <shardwise/op/step.hpp>

#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// a + b: one operation per element.
///
/// Shapes  both inputs and out [rows, width]
[[nodiscard]] constexpr OpWork add_work(Operation const& op, OpContext const& context) {
    return {.flops = static_cast<double>(context.elements(context.value(op.output))),
            .traffic = static_cast<double>(
                (context.bytes(op.inputs[0]) + context.bytes(op.inputs[1]) + context.bytes(op.output)).count())};
}

}  // namespace shardwise::inline v0_2_0
