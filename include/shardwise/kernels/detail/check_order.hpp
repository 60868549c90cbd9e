// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>
#include <limits>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What orders the rows of experts, on any back end.
template <class Backend>
[[nodiscard]] Result<> check_order(TensorView<std::int32_t const, 2, Backend> const& ids,
                                   TensorView<std::int32_t, 1, Backend> const& order,
                                   TensorView<std::int32_t, 1, Backend> const& first) {
    if (auto const known = check_views("order_experts", ids, order, first); !known) return known;
    auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("order_experts"); };
    if (order.elements() != ids.elements())
        return refused()
            .at("order")
            .because("has not a number for each pair")
            .got(order.elements())
            .expected(ids.elements());
    if (first.elements() < 2) {
        return refused()
            .at("first")
            .because("has not a number for each expert and one for the end")
            .got(first.elements())
            .at_least(2);
    }
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (ids.elements() <= most && first.elements() <= most) return {};
    return Error{ErrorCode::size_overflow}
        .in("order_experts")
        .because("has more pairs of a token and an expert than 31 bits count")
        .got(ids.elements())
        .fix("route fewer tokens at once");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
