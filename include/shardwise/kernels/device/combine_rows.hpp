// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_combined.hpp>
#include <shardwise/kernels/detail/combine_rows_call.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/combine_rows_launch.cuh.
template <class Api, class T>
Result<> launch_combine_rows(CombineRowsCall<T> const& call, typename Api::Stream stream);

}  // namespace detail

/// out = for each token the sum over its experts, in the order in which they were chosen, of weight * row: the host's bits
/// (kernels/combine_rows.hpp).
///
/// Shapes  rows [any number, width]; weights [tokens, experts_per_token]; places [tokens * experts_per_token], each a row's number;
///         out [tokens, width]
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> combine_rows(TensorView<T const, 2, DeviceBackend<Api>> rows,
                                    TensorView<std::int32_t const, 1, DeviceBackend<Api>> places,
                                    TensorView<float const, 2, DeviceBackend<Api>> weights,
                                    TensorView<T, 2, DeviceBackend<Api>> out, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_combined(rows, places, weights, out); !checked) return checked;
    if (out.empty()) return {};
    detail::CombineRowsCall<T> const call{rows.data(),       rows.stride(0),   places.data(), weights.data(),
                                          weights.stride(0), out.data(),       out.stride(0), out.extent(0),
                                          out.extent(1),     weights.extent(1)};
    stream.submit([&](typename Api::Stream native) { return detail::launch_combine_rows<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
