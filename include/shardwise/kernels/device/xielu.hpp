// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_xielu.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/xielu_call.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/xielu_launch.cuh.
template <class Api, class T>
Result<> launch_xielu(XieluCall<T> const& call, typename Api::Stream stream);

}  // namespace detail

/// out = xielu(in), element by element, by the four numbers of a layer (kernels/xielu.hpp, XieluNumbers).
///
/// Shapes  numbers [4]; in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> xielu(TensorView<T const, 2, DeviceBackend<Api>> in,
                             TensorView<float const, 1, DeviceBackend<Api>> numbers,
                             TensorView<T, 2, DeviceBackend<Api>> out, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_xielu(in, numbers, out); !checked) return checked;
    if (in.empty()) return {};
    detail::XieluCall<T> const call{in.data(),    in.stride(0), out.data(),    out.stride(0),
                                    in.extent(0), in.extent(1), numbers.data()};
    stream.submit([&](typename Api::Stream native) { return detail::launch_xielu<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
