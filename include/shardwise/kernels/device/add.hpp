// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_addends.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/device/detail/submit_add.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// out = a + b, element by element, rounded once: the host's bits. The second addend has the elements of the first, or floats.
///
/// Shapes  a, b, out [rows, width], out may be a or b
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api, ActivationElement Other>
requires detail::WeighsRows<Other, T>
[[nodiscard]] Result<> add(TensorView<T const, 2, DeviceBackend<Api>> a,
                           TensorView<Other const, 2, DeviceBackend<Api>> b, TensorView<T, 2, DeviceBackend<Api>> out,
                           DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_addends("add", a, b, out); !checked) return checked;
    detail::submit_add<T, Api, Other>("add", a.data(), a.stride(0), b.data(), b.stride(0), out, 1.0F, stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
