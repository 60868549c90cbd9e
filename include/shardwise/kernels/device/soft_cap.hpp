// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_cap.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/soft_cap_call.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/soft_cap_launch.cuh.
template <class Api, class T>
Result<> launch_soft_cap(SoftCapCall<T> const& call, typename Api::Stream stream);

}  // namespace detail

/// out = cap * tanh(in / cap), element by element; an exponential is within two units in the last place of a float.
///
/// Shapes  in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for a cap that is not above 0, or not finite
template <ActivationElement T, class Api>
[[nodiscard]] Result<> soft_cap(TensorView<T const, 2, DeviceBackend<Api>> in, TensorView<T, 2, DeviceBackend<Api>> out,
                                float cap, DeviceStream<Api>& stream) {
    if (auto const known = detail::check_cap("soft_cap", cap); !known) return known;
    if (auto const checked = detail::check_rows("soft_cap", in, in.extent(1), out); !checked) return checked;
    if (in.empty()) return {};
    detail::SoftCapCall<T> const call{in.data(),    in.stride(0), out.data(), out.stride(0),
                                      in.extent(0), in.extent(1), cap};
    stream.submit([&](typename Api::Stream native) { return detail::launch_soft_cap<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
