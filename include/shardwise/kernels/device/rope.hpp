// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/rope_call.hpp>
#include <shardwise/op/rope_layout.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/rope_launch.cuh.
template <class Api, class T>
Result<> launch_rope(RopeCall<T> const& call, typename Api::Stream stream);

}  // namespace detail

/// Turns the first elements of every head by its token's position, in place: the pair i of position p by the angle
/// p * frequencies[i]. `scale` multiplies cosine and sine (yarn's and longrope's attention factor). Those after `first` others
/// turn where it is given (MLA). Frequencies of 2^64 and more give NaN.
///
/// Shapes  values [tokens, heads * head_dim]; positions [tokens]; frequencies [rotary / 2], first + rotary at most head_dim
/// Units   frequencies in radians per token
/// Order   on `stream`
/// Errors  shape_mismatch
/// Source  Su et al., RoFormer, 2021
template <ActivationElement T, class Api>
[[nodiscard]] Result<> rope(TensorView<T, 2, DeviceBackend<Api>> values,
                            TensorView<std::int32_t const, 1, DeviceBackend<Api>> positions,
                            TensorView<float const, 1, DeviceBackend<Api>> frequencies, std::int64_t head_dim,
                            RopeLayout layout, DeviceStream<Api>& stream, float scale = 1.0F, std::int64_t first = 0) {
    if (auto const known = check_views("rope", values, positions, frequencies); !known) return known;
    Error error{ErrorCode::shape_mismatch};
    error.in("rope");
    auto const pairs = frequencies.elements();
    if (head_dim < 1 || values.extent(1) % head_dim != 0) {
        return error.because("a row is not made of whole heads").got(values.extent(1)).multiple_of(head_dim);
    }
    if (first < 0 || 2 * pairs > head_dim - first)
        return error.because("more elements turn than a head has").got(2 * pairs).at_most(head_dim - first);
    if (positions.elements() != values.extent(0)) {
        return error.because("each token needs a position").got(positions.elements()).expected(values.extent(0));
    }
    if (values.empty() || pairs == 0) return {};
    detail::RopeCall<T> const call{values.data(),
                                   values.stride(0),
                                   positions.data(),
                                   frequencies.data(),
                                   nullptr,
                                   0,
                                   values.extent(0),
                                   pairs,
                                   values.extent(1) / head_dim,
                                   head_dim,
                                   first,
                                   scale,
                                   layout == RopeLayout::interleaved};
    stream.submit([&](typename Api::Stream native) { return detail::launch_rope<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
