// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/softmax_call.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/softmax_launch.cuh.
template <class Api, class T>
Result<> launch_softmax(SoftmaxCall<T> const& call, typename Api::Stream stream);

}  // namespace detail

/// out = exp(in - max) / sum, row by row. A row of only minus infinity (everything masked) becomes zeros, one with a NaN or plus
/// infinity NaNs. Sums in float. The bits of a row do not depend on the rows beside it.
///
/// Shapes  in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> softmax(TensorView<T const, 2, DeviceBackend<Api>> in, TensorView<T, 2, DeviceBackend<Api>> out,
                               DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_rows("softmax", in, in.extent(1), out); !checked) return checked;
    if (in.empty()) return {};
    detail::SoftmaxCall<T> const call{in.data(), in.stride(0), out.data(), out.stride(0), in.extent(0), in.extent(1)};
    stream.submit([&](typename Api::Stream native) { return detail::launch_softmax<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
