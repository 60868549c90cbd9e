// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_taken.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/device/detail/submit_copy_rows.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// out = the rows of `in` with the given numbers, in their order. A number that is no row's gives zeros.
///
/// Shapes  numbers [n], in [rows, width], out [n, width]; `in` and `out` do not overlap
/// Order   on `stream`, which reads the numbers when it comes to them
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> take_rows(TensorView<std::int32_t const, 1, DeviceBackend<Api>> numbers,
                                 TensorView<T const, 2, DeviceBackend<Api>> in,
                                 TensorView<T, 2, DeviceBackend<Api>> out, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_taken("take_rows", numbers, in, out); !checked) return checked;
    detail::submit_copy_rows<T, Api>("take_rows", numbers.data(), 0, in, out, stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
