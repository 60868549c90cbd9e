// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/step.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A norm over the last axis, or over each head of it.
///
/// Shapes  in and out [rows, width]
/// Units   operations per element: rms 4 (square, sum, scale, weight), layer 7 (sum, centre, square, sum, scale,
///         weight, bias)
[[nodiscard]] constexpr OpWork norm_work(Operation const& op, OpContext const& context) {
    auto const& value = context.value(op.output);
    return {.flops = (op.norm == NormKind::layer ? 7.0 : 4.0) * static_cast<double>(context.elements(value)),
            .traffic = static_cast<double>((context.bytes(op.inputs[0]) + context.bytes(op.output)).count())};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
