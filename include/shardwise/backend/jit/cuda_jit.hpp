// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/cuda_driver.hpp>
#include <shardwise/backend/jit/nvrtc.hpp>
#include <shardwise/backend/jit/run_time_kernels.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// CUDA's kernels: NVRTC compiles them, the driver loads them.
struct CudaJitVendor {
    using Driver = CudaDriver;
    using Compiler = Nvrtc;

    [[nodiscard]] static Result<Nvrtc> open_compiler() { return Nvrtc::open(); }
    [[nodiscard]] static Result<std::string> architecture(CudaDriver const& driver, Nvrtc const& nvrtc) {
        auto const capability = driver.capability();
        if (!capability) return capability.error();
        auto const known = nvrtc.architectures();
        if (!known) return known.error();
        return architecture_for(*capability, *known);
    }
    /// The architecture to compile for: the device's own, or the last before it, whose PTX the driver then compiles.
    [[nodiscard]] static std::string architecture_for(int capability, std::vector<int> const& known) {
        if (std::find(known.begin(), known.end(), capability) != known.end()) return "sm_" + std::to_string(capability);
        int last = known.empty() ? capability : known.front();
        for (int const each : known) {
            if (each < capability) last = each;
        }
        return "compute_" + std::to_string(last);
    }
    [[nodiscard]] static KernelRequest request(std::span<DeviceSource const> sources, std::string kernel,
                                               std::string architecture) {
        return {unit_of(sources), sources, std::move(kernel), std::move(architecture), {}};
    }
};

using CudaJit = RunTimeKernels<CudaJitVendor>;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
