// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/jit_kernel.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Launches what SHARDWISE_KERNEL names: a vendor's compiler makes it when it is first launched, unless the cache has it. `Kernels` is a
/// RunTimeKernels.
template <class Kernels, class Stream>
struct JitLauncher {
    template <class... Parameters>
    static Result<> launch(std::string_view name, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
                           Stream stream, Parameters... arguments) {
        JitLaunch launch{name, blocks, threads, stream, &launch_kernel, {}};
        auto* const before = std::exchange(JitLaunch::current(), &launch);
        kernel(arguments...);
        JitLaunch::current() = before;
        return launch.result;
    }
    /// A kernel is compiled for whatever device launches it.
    template <class... Parameters>
    static Result<bool> has_code(void (*)(Parameters...)) {
        return true;
    }

private:
    static Result<> launch_kernel(JitRecord& kernel, void** arguments, JitLaunch const& launch) {
        auto const kernels = Kernels::get();
        if (!kernels) return kernels.error();
        return (*kernels)->launch(kernel, arguments, launch);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
