// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/device/detail/submit_add.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// out = value.
///
/// Shapes  out [rows, width]
/// Order   on `stream`
/// Errors  invalid_argument for elements without memory
template <ActivationElement T, class Api>
[[nodiscard]] Result<> fill(TensorView<T, 2, DeviceBackend<Api>> out, float value, DeviceStream<Api>& stream) {
    if (auto const known = check_views("fill", out); !known) return known;
    detail::submit_add<T, Api, T>("fill", nullptr, 0, nullptr, 0, out, value, stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
