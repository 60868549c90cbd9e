// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/device/detail/submit_add.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// out = factor * in, element by element: the host's bits.
///
/// Shapes  in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> scale(TensorView<T const, 2, DeviceBackend<Api>> in, TensorView<T, 2, DeviceBackend<Api>> out,
                             float factor, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_rows("scale", in, in.extent(1), out); !checked) return checked;
    detail::submit_add<T, Api, T>("scale", in.data(), in.stride(0), nullptr, 0, out, factor, stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
