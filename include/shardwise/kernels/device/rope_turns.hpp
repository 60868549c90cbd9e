// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_turns.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/rope_turns_call.hpp>
#include <shardwise/kernels/device/rope.hpp>
#include <shardwise/op/rope_layout.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/rope_turns_launch.cuh.
template <class Api>
Result<> launch_rope_turns(RopeTurnsCall const& call, typename Api::Stream stream);

}  // namespace detail

/// The cosines and sines by which `rope` turns each token's pairs, times `scale`: made once for a step and a set of frequencies, and
/// read by every layer. Each is within 3 * 2^-24 before it is scaled; frequencies of 2^64 and more give NaN.
///
/// Shapes  positions [tokens]; frequencies [pairs]; turns [tokens, 2 * pairs], the cosines first
/// Units   frequencies in radians per token
/// Order   on `stream`
/// Errors  shape_mismatch
template <class Api>
[[nodiscard]] Result<> rope_turns(TensorView<std::int32_t const, 1, DeviceBackend<Api>> positions,
                                  TensorView<float const, 1, DeviceBackend<Api>> frequencies,
                                  TensorView<float, 2, DeviceBackend<Api>> turns, DeviceStream<Api>& stream,
                                  float scale = 1.0F) {
    if (auto const checked = detail::check_turns(positions, frequencies, turns); !checked) return checked;
    if (turns.empty()) return {};
    detail::RopeTurnsCall const call{positions.data(),     frequencies.data(),     turns.data(), turns.stride(0),
                                     positions.elements(), frequencies.elements(), scale};
    stream.submit([&](typename Api::Stream native) { return detail::launch_rope_turns<Api>(call, native); });
    return {};
}

/// Turns the first elements of every head, in place, by what rope_turns made for its token, as `rope` does.
///
/// Shapes  values [tokens, heads * head_dim]; turns [tokens, 2 * pairs], first + 2 * pairs at most head_dim
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> rope(TensorView<T, 2, DeviceBackend<Api>> values,
                            TensorView<float const, 2, DeviceBackend<Api>> turns, std::int64_t head_dim,
                            RopeLayout layout, DeviceStream<Api>& stream, std::int64_t first = 0) {
    if (auto const checked = detail::check_turned(values, turns, head_dim, first); !checked) return checked;
    if (values.empty() || turns.empty()) return {};
    detail::RopeCall<T> const call{values.data(),
                                   values.stride(0),
                                   nullptr,
                                   nullptr,
                                   turns.data(),
                                   turns.stride(0),
                                   values.extent(0),
                                   turns.extent(1) / 2,
                                   values.extent(1) / head_dim,
                                   head_dim,
                                   first,
                                   1.0F,
                                   layout == RopeLayout::interleaved};
    stream.submit([&](typename Api::Stream native) { return detail::launch_rope<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
