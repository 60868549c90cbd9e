// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_order.hpp>
#include <shardwise/kernels/detail/order_experts_call.hpp>
#include <shardwise/kernels/routing_order.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/order_experts_launch.cuh.
template <class Api>
Result<> launch_order_experts(OrderExpertsCall const& call, typename Api::Stream stream);

}  // namespace detail

/// The order in which experts compute rows, and where each expert's begin: the host's (kernels/order_experts.hpp), left in the
/// device's memory.
///
/// Shapes  ids [tokens, experts_per_token], each at least 0 and below the experts; order [tokens * experts_per_token], first
///         [experts + 1]
/// Order   on `stream`
/// Errors  shape_mismatch; size_overflow for more pairs than 31 bits count
template <class Api>
[[nodiscard]] Result<> order_experts(TensorView<std::int32_t const, 2, DeviceBackend<Api>> ids, RoutingOrder by,
                                     TensorView<std::int32_t, 1, DeviceBackend<Api>> order,
                                     TensorView<std::int32_t, 1, DeviceBackend<Api>> first, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_order(ids, order, first); !checked) return checked;
    // Experts without rows have a first one all the same.
    auto const narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
    detail::OrderExpertsCall const call{
        ids.data(), ids.stride(0), narrow(ids.extent(0)), narrow(ids.extent(1)), narrow(first.elements() - 1),
        by,         order.data(),  first.data()};
    stream.submit([&](typename Api::Stream native) { return detail::launch_order_experts<Api>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
