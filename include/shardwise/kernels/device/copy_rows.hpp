// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/device/detail/submit_copy_rows.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Copies rows between matrices whose rows may lie differently far apart.
///
/// Shapes  in, out [rows, width], which do not overlap
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> copy_rows(TensorView<T const, 2, DeviceBackend<Api>> in,
                                 TensorView<T, 2, DeviceBackend<Api>> out, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_rows("copy_rows", in, in.extent(1), out); !checked) return checked;
    detail::submit_copy_rows<T, Api>("copy_rows", nullptr, 0, in, out, stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
