// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_parts.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/residual_norm_call.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/residual_norm_launch.cuh.
template <class Api, class T, class Weight>
Result<> launch_residual_norm(ResidualNormCall<T, Weight> const& call, typename Api::Stream stream);

}  // namespace detail

/// residual += parts[0] + parts[1] + ..., summed in this order in float, then out = rms_norm(residual), in one pass over memory;
/// what kernels/residual_norm.hpp says of the host's. The weight's elements are the rows', or floats.
///
/// Shapes  parts: at least one, on the device, of [rows, width] without gaps; residual, out [rows, width], which do not overlap;
///         weight [width]
/// Memory  the parts' list is copied, the parts stay alive until it is done
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument without parts; capacity_exceeded for more than 64
template <ActivationElement T, class Api, ActivationElement Weight>
requires detail::WeighsRows<Weight, T>
[[nodiscard]] Result<> residual_norm(std::span<T const* const> parts, TensorView<T, 2, DeviceBackend<Api>> residual,
                                     TensorView<Weight const, 1, DeviceBackend<Api>> weight,
                                     TensorView<T, 2, DeviceBackend<Api>> out, float epsilon, DeviceStream<Api>& stream,
                                     float offset = 0.0F) {
    if (auto const known = check_views("residual_norm", residual, weight, out); !known) return known;
    TensorView<T const, 2, DeviceBackend<Api>> const read = residual;
    if (auto const checked = detail::check_rows("residual_norm", read, weight.elements(), out); !checked)
        return checked;
    if (auto const checked = detail::check_parts<T>("residual_norm", parts, read); !checked) return checked;
    if (read.empty()) return {};
    detail::ResidualNormCall<T, Weight> call{};
    call.norm = {read.data(),    read.stride(0), weight.data(), out.data(), out.stride(0),
                 read.extent(0), read.extent(1), epsilon,       offset};
    call.residual = residual.data();
    call.count = static_cast<std::int64_t>(parts.size());
    std::copy(parts.begin(), parts.end(), call.parts);
    stream.submit(
        [&](typename Api::Stream native) { return detail::launch_residual_norm<Api, T, Weight>(call, native); });
    return {};
}

/// residual += in, then out = rms_norm(residual): the same for one addend.
///
/// Shapes  in, residual, out [rows, width]; in without gaps; weight [width]
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api, ActivationElement Weight>
requires detail::WeighsRows<Weight, T>
[[nodiscard]] Result<> residual_norm(TensorView<T const, 2, DeviceBackend<Api>> in,
                                     TensorView<T, 2, DeviceBackend<Api>> residual,
                                     TensorView<Weight const, 1, DeviceBackend<Api>> weight,
                                     TensorView<T, 2, DeviceBackend<Api>> out, float epsilon, DeviceStream<Api>& stream,
                                     float offset = 0.0F) {
    if (auto const checked = detail::check_addend("residual_norm", in, residual, weight, out); !checked) return checked;
    T const* const part = in.data();
    return residual_norm<T>(std::span<T const* const>(&part, 1), residual, weight, out, epsilon, stream, offset);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
