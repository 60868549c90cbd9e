// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_kind.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/scale_rows_call.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/scale_rows_launch.cuh.
template <class Api, class T>
Result<> launch_scale_rows(ScaleRowsCall<T> const& call, typename Api::Stream stream);

}  // namespace detail

/// out = activation(gate) * in, where one number gates a whole row.
///
/// Shapes  gate [rows, 1]; in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch; unsupported for xielu, a kernel of its own
template <ActivationElement T, class Api>
[[nodiscard]] Result<> scale_rows(TensorView<T const, 2, DeviceBackend<Api>> gate,
                                  TensorView<T const, 2, DeviceBackend<Api>> in,
                                  TensorView<T, 2, DeviceBackend<Api>> out, ActivationKind kind,
                                  DeviceStream<Api>& stream) {
    if (auto const known = detail::check_kind("scale_rows", kind); !known) return known;
    if (auto const checked = detail::check_rows("scale_rows", in, in.extent(1), out); !checked) return checked;
    if (auto const checked = detail::check_row_gate("scale_rows", gate, in.extent(0)); !checked) return checked;
    if (in.empty()) return {};
    detail::ScaleRowsCall<T> const call{gate.data(),   gate.stride(0), in.data(),    in.stride(0), out.data(),
                                        out.stride(0), in.extent(0),   in.extent(1), kind};
    stream.submit([&](typename Api::Stream native) { return detail::launch_scale_rows<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
