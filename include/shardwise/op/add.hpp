// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// a + b: one operation per element.
///
/// Shapes  both inputs and out [rows, width]
struct AddOp : OpTraits<OpKind::add, OpUnit::vectors> {
    static constexpr std::string_view name = "add";
    static constexpr bool is_element_wise = true;

    static constexpr bool keeps_partial(Operation const&, bool is_first_partial, bool is_second_partial) {
        return is_first_partial && is_second_partial;
    }

    [[nodiscard]] static constexpr GradientRule gradient(Operation const&, Span<Value const>) {
        return {.has_gradient = {true, true}};
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        return {.flops = static_cast<double>(context.elements(op.output)),
                .traffic = static_cast<double>(
                    (context.bytes(op.inputs[0]) + context.bytes(op.inputs[1]) + context.bytes(op.output)).count())};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
