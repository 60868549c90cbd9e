// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_route.hpp>
#include <shardwise/kernels/detail/route_call.hpp>
#include <shardwise/kernels/router_options.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/route_launch.cuh.
template <class Api>
Result<> launch_route(RouteCall const& call, typename Api::Stream stream);

}  // namespace detail

/// Chooses each token's experts, the best first, the lower number of equals, and their weights: the host's experts and the bits of
/// its weights (kernels/route.hpp).
///
/// Shapes  logits [tokens, experts]; correction [experts] or empty; ids, weights [tokens, experts_per_token]
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for groups that do not divide the experts or are too few; unsupported for more than
///         1024 experts
template <class Api>
[[nodiscard]] Result<> route(TensorView<float const, 2, DeviceBackend<Api>> logits,
                             TensorView<float const, 1, DeviceBackend<Api>> correction,
                             TensorView<std::int32_t, 2, DeviceBackend<Api>> ids,
                             TensorView<float, 2, DeviceBackend<Api>> weights, RouterOptions const& options,
                             DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_route(logits, correction, ids, weights, options); !checked) return checked;
    auto const experts = logits.extent(1);
    if (experts > detail::max_routed_experts) {
        return Error{ErrorCode::unsupported}
            .in("route")
            .because("is over more experts than a device's kernel holds")
            .got(experts)
            .at_most(detail::max_routed_experts);
    }
    if (logits.extent(0) == 0) return {};
    auto const narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
    detail::RouteCall const call{logits.data(),
                                 logits.stride(0),
                                 correction.empty() ? nullptr : correction.data(),
                                 ids.data(),
                                 ids.stride(0),
                                 weights.data(),
                                 weights.stride(0),
                                 logits.extent(0),
                                 narrow(experts),
                                 narrow(options.experts_per_token),
                                 narrow(options.groups),
                                 narrow(options.kept_groups),
                                 options.scale,
                                 options.near_share,
                                 options.score,
                                 options.group_rank,
                                 options.renormalises};
    stream.submit([&](typename Api::Stream native) { return detail::launch_route<Api>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
