// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

template <class T>
struct RmsNormCall {
    T const* in;
    std::int64_t in_row;
    T const* weight;
    T* out;
    std::int64_t out_row;
    std::int64_t rows;
    std::int64_t width;
    float epsilon;
    float offset;
};

/// Defined in kernels/rms_norm.cuh.
template <class Api, class T>
Result<> launch_rms_norm(RmsNormCall<T> const& call, typename Api::Stream stream);

}  // namespace detail

/// Scales each row to a root mean square of 1, then by the weight: out = in / rms(in) * (weight + offset). Sums in float.
///
/// Shapes  in, out [rows, width], out may be in; weight [width]
/// Order   on `stream`
/// Errors  shape_mismatch
/// Source  Zhang and Sennrich, Root Mean Square Layer Normalization, 2019
template <ActivationElement T, class Api>
[[nodiscard]] Result<> rms_norm(TensorView<T const, 2, DeviceBackend<Api>> in,
                                TensorView<T const, 1, DeviceBackend<Api>> weight,
                                TensorView<T, 2, DeviceBackend<Api>> out, float epsilon, DeviceStream<Api>& stream,
                                float offset = 0.0F) {
    auto const rows = in.extent(0);
    auto const width = in.extent(1);
    Error error{ErrorCode::shape_mismatch};
    error.in("rms_norm");
    if (out.extent(0) != rows) {
        return error.because("the output has another number of rows than the input").got(out.extent(0)).expected(rows);
    }
    if (out.extent(1) != width) {
        return error.because("the output is not as wide as the input").got(out.extent(1)).expected(width);
    }
    if (weight.elements() != width) {
        return error.because("the parameters are not as wide as a row").got(weight.elements()).expected(width);
    }
    if (in.empty()) return {};
    detail::RmsNormCall<T> const call{in.data(), in.stride(0), weight.data(), out.data(), out.stride(0),
                                      rows,      width,        epsilon,       offset};
    stream.submit([&](typename Api::Stream native) { return detail::launch_rms_norm<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
