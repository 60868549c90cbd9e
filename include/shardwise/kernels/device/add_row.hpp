// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_addends.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/device/detail/submit_add.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Adds one row to each row: the host's bits. Its elements are theirs, or floats.
///
/// Shapes  row [width], to [rows, width], which do not overlap
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api, ActivationElement Other>
requires detail::WeighsRows<Other, T>
[[nodiscard]] Result<> add_row(TensorView<Other const, 1, DeviceBackend<Api>> row,
                               TensorView<T, 2, DeviceBackend<Api>> to, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_added_row(row, to); !checked) return checked;
    detail::submit_add<T, Api, Other>("add_row", to.data(), to.stride(0), row.data(), 0, to, 1.0F, stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
