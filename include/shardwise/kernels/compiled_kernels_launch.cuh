// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/device/compiled_kernels.hpp>
#include <shardwise/kernels/rope_turns.cuh>

#include <string_view>

// SHARDWISE_ARCHITECTURES: what a unit of the vendor's compiler is compiled for, as a list without quotes: 80,90 or gfx90a,gfx1100. Without
// it nobody can be told.
#if !defined(SHARDWISE_ARCHITECTURES)
#define SHARDWISE_ARCHITECTURES
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api>
KernelList compiled_kernels() {
    return kernel_list<Api>;
}

template <class Api>
std::string_view compiled_architectures() {
    return SHARDWISE_TEXT(SHARDWISE_ARCHITECTURES);
}

/// By a kernel that every list has: all are compiled for the same devices.
template <class Api>
Result<bool> has_device_code() {
    using Code = DeviceCode<Api>;
    static_assert(Code::warp_size == Api::warp_size || Code::warp_size == Api::least_warp_size,
                  "kernels and contexts agree on the warp");
    static_assert(widest_warp<Api> == Api::warp_size, "launchers and kernels agree on the widest warp");
    return DeviceLaunch<Api>::has_code(SHARDWISE_KERNEL(make_turns<1>));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
