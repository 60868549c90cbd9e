// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/routing_order.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// An ordering of experts' rows as its kernel takes it.
struct OrderExpertsCall {
    std::int32_t const* ids;
    std::int64_t ids_row;
    std::int32_t tokens;
    std::int32_t chosen;
    std::int32_t experts;
    RoutingOrder by;
    std::int32_t* order;
    std::int32_t* first;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
