// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_api.hpp>
#include <shardwise/backend/device_context.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/kernel_list.hpp>

#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

// What a program was linked with: defined in kernels/compiled_kernels_launch.cuh.

/// The kernels: what SHARDWISE_KERNELS said where the vendor's compiler made them.
template <class Api>
KernelList compiled_kernels();

/// What they were compiled for, with commas between; empty where nobody said so.
template <class Api>
std::string_view compiled_architectures();

/// Whether the current device runs them; where a kernel is compiled when it is first launched, each does.
///
/// Errors  backend_failure
template <class Api>
Result<bool> has_device_code();

}  // namespace detail

/// Whether the kernels that a program was linked with run on a context's device.
///
/// Errors  unsupported, which names the device's processor, those that there are kernels for, and the option; backend_failure
template <class Api>
[[nodiscard]] Result<> check_device_code(DeviceContext<Api> const& context) {
    detail::DeviceScope<Api> const scope(context.device());
    if (!scope.result()) return scope.result();
    auto const is_there = detail::has_device_code<Api>();
    if (!is_there) return is_there.error();
    if (*is_there) return {};
    std::string const built(detail::compiled_architectures<Api>());
    return Error{ErrorCode::unsupported}
        .in(std::string(Api::name) + ":" + std::to_string(context.device()))
        .at(context.facts().processor)
        .because("has no kernels in this program, which was compiled for " + (built.empty() ? "others" : built))
        .fix("configure CMake with this processor in " + std::string(Api::architectures_option));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
