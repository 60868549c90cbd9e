// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_taken.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/mean_rows_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/mean_rows_launch.cuh.
template <class Api, class T>
Result<> launch_mean_rows(MeanRowsCall<T> const& call, typename Api::Stream stream);

}  // namespace detail

/// out = the mean of each text's rows of `in`, which lie one text after another, each up to its last row: what a classifier pools.
/// Sums in float, whose order is that of the text's rows. A text without rows, or with rows that are not there, gives zeros.
///
/// Shapes  last_rows [texts], ascending; in [rows, width], out [texts, width]; `in` and `out` do not overlap
/// Order   on `stream`, which reads the numbers when it comes to them
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> mean_rows(TensorView<std::int32_t const, 1, DeviceBackend<Api>> last_rows,
                                 TensorView<T const, 2, DeviceBackend<Api>> in,
                                 TensorView<T, 2, DeviceBackend<Api>> out, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_taken("mean_rows", last_rows, in, out); !checked) return checked;
    if (out.empty()) return {};
    detail::MeanRowsCall<T> const call{last_rows.data(), in.data(),     in.stride(0),  in.extent(0),
                                       out.data(),       out.stride(0), out.extent(0), out.extent(1)};
    stream.submit([&](typename Api::Stream native) { return detail::launch_mean_rows<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
