// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/layer_norm_call.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/layer_norm_launch.cuh.
template <class Api, class T, class Weight>
Result<> launch_layer_norm(LayerNormCall<T, Weight> const& call, typename Api::Stream stream);
template <class Api, class T>
Result<> launch_head_layer_norm(LayerNormCall<T, float> const& call, typename Api::Stream stream);

}  // namespace detail

/// Centres each row and scales it to a variance of 1: out = (in - mean) / sqrt(variance + epsilon) * weight + bias. Sums in float.
/// The elements of weight and bias are the rows', or floats.
///
/// Shapes  in, out [rows, width], out may be in; weight [width]; bias [width] or empty
/// Order   on `stream`
/// Errors  shape_mismatch
/// Source  Ba, Kiros and Hinton, Layer Normalization, 2016; the variance is that of the row, not of a sample (as torch's)
template <ActivationElement T, class Api, ActivationElement Weight>
requires detail::WeighsRows<Weight, T>
[[nodiscard]] Result<> layer_norm(TensorView<T const, 2, DeviceBackend<Api>> in,
                                  TensorView<Weight const, 1, DeviceBackend<Api>> weight,
                                  TensorView<Weight const, 1, DeviceBackend<Api>> bias,
                                  TensorView<T, 2, DeviceBackend<Api>> out, float epsilon, DeviceStream<Api>& stream) {
    if (auto const known = check_views("layer_norm", weight, bias); !known) return known;
    if (auto const checked = detail::check_rows("layer_norm", in, weight.elements(), out); !checked) return checked;
    if (auto const checked = detail::check_bias("layer_norm", bias, in.extent(1)); !checked) return checked;
    if (in.empty()) return {};
    detail::LayerNormCall<T, Weight> const call{
        in.data(),    in.stride(0), weight.data(), bias.empty() ? nullptr : bias.data(), out.data(), out.stride(0),
        in.extent(0), in.extent(1), epsilon};
    stream.submit([&](typename Api::Stream native) { return detail::launch_layer_norm<Api, T, Weight>(call, native); });
    return {};
}

/// The same of heads, each with a weight of its own and without a bias, in one launch.
///
/// Shapes  in, out [tokens * heads, width], row i of head i mod heads, out may be in; weights [heads, width] dense
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> layer_norm(TensorView<T const, 2, DeviceBackend<Api>> in,
                                  TensorView<float const, 2, DeviceBackend<Api>> weights,
                                  TensorView<T, 2, DeviceBackend<Api>> out, float epsilon, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_rows("layer_norm", in, weights.extent(1), out); !checked) return checked;
    if (auto const checked = detail::check_head_weights("layer_norm", weights, in.extent(0)); !checked) return checked;
    if (in.empty()) return {};
    detail::LayerNormCall<T, float> const call{in.data(),     in.stride(0), weights.data(), nullptr, out.data(),
                                               out.stride(0), in.extent(0), in.extent(1),   epsilon, weights.extent(0)};
    stream.submit([&](typename Api::Stream native) { return detail::launch_head_layer_norm<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
