// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Every element times its factor, in place: one operation per element. Of partial sums it makes partial sums.
///
/// Shapes  in and out [rows, width], the same value
struct ScaleOp : OpTraits<OpKind::scale, OpUnit::vectors> {
    static constexpr std::string_view name = "scale";
    static constexpr bool keeps_partial(Operation const&, bool, bool) { return true; }

    [[nodiscard]] static constexpr GradientRule gradient(Operation const&, Span<Value const>) {
        return {.has_gradient = {true}};
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        return {.flops = static_cast<double>(context.elements(op.output)),
                .traffic = 2.0 * static_cast<double>(context.bytes(op.output).count())};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
