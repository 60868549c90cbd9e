// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_weighed.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/weigh_rows_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/weigh_rows_launch.cuh.
template <class Api, class T>
Result<> launch_weigh_rows(WeighRowsCall<T> const& call, typename Api::Stream stream);

}  // namespace detail

/// out = for each of a token's experts its row times the expert's weight: what experts read whose inputs are weighed (llama4).
/// `places` says by pair of a token and its expert where its row is, as `order_experts` does.
///
/// Shapes  in [tokens, width]; weights [tokens, experts_per_token]; places [tokens * experts_per_token], each row's number once;
///         out [tokens * experts_per_token, width]; `in` and `out` do not overlap
/// Order   on `stream`, which reads places and weights when it comes to them
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> weigh_rows(TensorView<T const, 2, DeviceBackend<Api>> in,
                                  TensorView<std::int32_t const, 1, DeviceBackend<Api>> places,
                                  TensorView<float const, 2, DeviceBackend<Api>> weights,
                                  TensorView<T, 2, DeviceBackend<Api>> out, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_weighed(in, places, weights, out); !checked) return checked;
    if (out.empty()) return {};
    detail::WeighRowsCall<T> const call{in.data(),  in.stride(0),  places.data(), weights.data(), weights.stride(0),
                                        out.data(), out.stride(0), out.extent(0), out.extent(1),  weights.extent(1)};
    stream.submit([&](typename Api::Stream native) { return detail::launch_weigh_rows<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
