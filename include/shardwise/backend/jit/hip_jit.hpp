// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/hip_driver.hpp>
#include <shardwise/backend/jit/hiprtc.hpp>
#include <shardwise/backend/jit/run_time_kernels.hpp>

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// HIP's kernels: hipRTC compiles them, the runtime loads them.
struct HipJitVendor {
    using Driver = HipDriver;
    using Compiler = Hiprtc;

    /// Of the release that the program was built with.
    [[nodiscard]] static Result<Hiprtc> open_compiler() { return Hiprtc::open(Hiprtc::usual_names(HIP_VERSION_MAJOR)); }
    [[nodiscard]] static Result<std::string> architecture(HipDriver const& driver, Hiprtc const&) {
        return driver.processor();
    }
    /// hipRTC 5.2 finds a kernel by its whole name, with the namespace of a version: that of a unit without assertions.
    [[nodiscard]] static KernelRequest request(std::span<DeviceSource const> sources, std::string kernel,
                                               std::string architecture) {
        constexpr std::string_view before = "shardwise::";
        constexpr std::string_view version = SHARDWISE_JIT_TEXT(
            SHARDWISE_NAMESPACE_OF(SHARDWISE_VERSION_MAJOR, SHARDWISE_VERSION_MINOR, SHARDWISE_VERSION_PATCH, , )) "::";
        for (auto at = kernel.find(before); at != std::string::npos; at = kernel.find(before, at)) {
            at += before.size();
            kernel.insert(at, version);
        }
        return {unit_of(sources), sources, std::move(kernel), std::move(architecture), {"-DNDEBUG"}};
    }
};

using HipJit = RunTimeKernels<HipJitVendor>;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
