// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_order.hpp>
#include <shardwise/kernels/routing_order.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The order in which experts compute rows. A pair is a token and one of its experts, numbered token * experts_per_token + i; its row
/// stands by expert, then by token, then by choice. `order` says by row its token, or by pair its row; `first` by expert its first
/// row, and the end of the last.
///
/// Shapes  ids [tokens, experts_per_token], each at least 0 and below the experts; order [tokens * experts_per_token], first
///         [experts + 1]
/// Order   on `stream`
/// Errors  shape_mismatch; size_overflow for more pairs than 31 bits count
[[nodiscard]] inline Result<> order_experts(TensorView<std::int32_t const, 2, Host> ids, RoutingOrder by,
                                            TensorView<std::int32_t, 1, Host> order,
                                            TensorView<std::int32_t, 1, Host> first, HostStream& stream) {
    if (auto const checked = detail::check_order(ids, order, first); !checked) return checked;
    stream.submit([=]() -> Result<> {
        auto const tokens = ids.extent(0);
        auto const chosen = ids.extent(1);
        auto* const ends = first.data();
        auto const experts = first.elements() - 1;
        for (std::int64_t i = 0; i <= experts; ++i) ends[i] = 0;
        for (std::int64_t token = 0; token < tokens; ++token) {
            for (std::int64_t i = 0; i < chosen; ++i) ++ends[ids.row(token)[i] + 1];
        }
        for (std::int64_t i = 1; i <= experts; ++i) ends[i] += ends[i - 1];
        for (std::int64_t token = 0; token < tokens; ++token) {
            for (std::int64_t i = 0; i < chosen; ++i) {
                auto const row = ends[ids.row(token)[i]]++;
                if (by == RoutingOrder::token_of_row) {
                    order.data()[row] = static_cast<std::int32_t>(token);
                } else {
                    order.data()[token * chosen + i] = row;
                }
            }
        }
        // Each has become the first of the next.
        for (auto i = experts; i > 0; --i) ends[i] = ends[i - 1];
        ends[0] = 0;
        return {};
    });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
