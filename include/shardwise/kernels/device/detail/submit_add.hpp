// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/add_call.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Defined in kernels/add_launch.cuh.
template <class Api, class T, class Other>
Result<> launch_add(std::string_view name, AddCall<T, Other> const& call, typename Api::Stream stream);

/// Puts the kernel of `add`, `add_row`, `scale` and `fill` into a stream.
template <class T, class Api, class Other>
void submit_add(std::string_view name, T const* a, std::int64_t a_row, Other const* b, std::int64_t b_row,
                TensorView<T, 2, DeviceBackend<Api>> const& out, float factor, DeviceStream<Api>& stream) {
    if (out.empty()) return;
    AddCall<T, Other> const call{a, a_row, b, b_row, out.data(), out.stride(0), out.extent(0), out.extent(1), factor};
    stream.submit([&](typename Api::Stream native) { return launch_add<Api, T, Other>(name, call, native); });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
