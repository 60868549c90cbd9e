// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/rms_norm_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/rms_norm_launch.cuh.
template <class Api, class T, class Weight>
Result<> launch_rms_norm(RmsNormCall<T, Weight> const& call, typename Api::Stream stream);
template <class Api, class T>
Result<> launch_head_norm(RmsNormCall<T, float> const& call, typename Api::Stream stream);

}  // namespace detail

/// Scales each row to a root mean square of 1, then by the weight: out = in / rms(in) * (weight + offset). Sums in float.
/// The weight's elements are the rows', or floats.
///
/// Shapes  in, out [rows, width], out may be in; weight [width]
/// Order   on `stream`
/// Errors  shape_mismatch
/// Source  Zhang and Sennrich, Root Mean Square Layer Normalization, 2019
template <ActivationElement T, class Api, ActivationElement Weight>
requires detail::WeighsRows<Weight, T>
[[nodiscard]] Result<> rms_norm(TensorView<T const, 2, DeviceBackend<Api>> in,
                                TensorView<Weight const, 1, DeviceBackend<Api>> weight,
                                TensorView<T, 2, DeviceBackend<Api>> out, float epsilon, DeviceStream<Api>& stream,
                                float offset = 0.0F) {
    if (auto const known = check_views("rms_norm", weight); !known) return known;
    if (auto const checked = detail::check_rows("rms_norm", in, weight.elements(), out); !checked) return checked;
    if (in.empty()) return {};
    detail::RmsNormCall<T, Weight> const call{in.data(),    in.stride(0), weight.data(), out.data(), out.stride(0),
                                              in.extent(0), in.extent(1), epsilon,       offset};
    stream.submit([&](typename Api::Stream native) { return detail::launch_rms_norm<Api, T, Weight>(call, native); });
    return {};
}

/// The same of heads, each with a weight of its own, in one launch.
///
/// Shapes  in, out [tokens * heads, width], row i of head i mod heads, out may be in; weights [heads, width] dense
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> rms_norm(TensorView<T const, 2, DeviceBackend<Api>> in,
                                TensorView<float const, 2, DeviceBackend<Api>> weights,
                                TensorView<T, 2, DeviceBackend<Api>> out, float epsilon, DeviceStream<Api>& stream,
                                float offset = 0.0F) {
    if (auto const checked = detail::check_rows("rms_norm", in, weights.extent(1), out); !checked) return checked;
    if (auto const checked = detail::check_head_weights("rms_norm", weights, in.extent(0)); !checked) return checked;
    if (in.empty()) return {};
    detail::RmsNormCall<T, float> const call{in.data(),    in.stride(0), weights.data(), out.data(), out.stride(0),
                                             in.extent(0), in.extent(1), epsilon,        offset,     weights.extent(0)};
    stream.submit([&](typename Api::Stream native) { return detail::launch_head_norm<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
