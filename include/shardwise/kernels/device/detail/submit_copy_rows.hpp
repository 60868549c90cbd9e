// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/copy_rows_call.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Defined in kernels/copy_rows_launch.cuh.
template <class Api, class T>
Result<> launch_copy_rows(std::string_view name, CopyRowsCall<T> const& call, typename Api::Stream stream);

/// Puts the kernel of `copy_rows`, `take_rows` and `embedding` into a stream.
template <class T, class Api>
void submit_copy_rows(std::string_view name, std::int32_t const* numbers, std::int64_t first,
                      TensorView<T const, 2, DeviceBackend<Api>> const& in,
                      TensorView<T, 2, DeviceBackend<Api>> const& out, DeviceStream<Api>& stream) {
    if (out.empty()) return;
    CopyRowsCall<T> const call{numbers,    first,         in.data(),     in.stride(0), in.extent(0),
                               out.data(), out.stride(0), out.extent(0), out.extent(1)};
    stream.submit([&](typename Api::Stream native) { return launch_copy_rows<Api, T>(name, call, native); });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
