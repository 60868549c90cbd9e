// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/hip_api.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>
#include <hip/hip_runtime_api.h>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What of the HIP runtime loads and launches kernels.
///
/// Source  hip/hip_runtime_api.h of ROCm 5.2 to 7.0
class HipDriver {
public:
    /// The runtime is linked with the program.
    [[nodiscard]] static Result<HipDriver> open() { return HipDriver{}; }

    /// What stands for this thread's device.
    [[nodiscard]] Result<void*> current_context() const {
        auto const device = HipApi::current_device();
        if (!device) return device.error();
        // One after its number: 0 is none.
        return reinterpret_cast<void*>(static_cast<std::intptr_t>(*device) + 1);
    }
    /// The current device's processor with its features, such as gfx90a:sramecc+:xnack-.
    [[nodiscard]] Result<std::string> processor() const {
        auto const device = HipApi::current_device();
        if (!device) return device.error();
        hipDeviceProp_t properties{};
        auto const asked = hip_result(hipGetDeviceProperties(&properties, *device), "hipGetDeviceProperties");
        if (!asked) return asked.error();
        return std::string(properties.gcnArchName);
    }
    /// Brings an image to the current device, for as long as the program lives, and finds a kernel in it.
    [[nodiscard]] Result<void*> load(std::string const& image, std::string const& symbol) const {
        // Loading is no part of what a stream that is captured takes down.
        auto mode = hipStreamCaptureModeRelaxed;
        auto const set = hip_result(hipThreadExchangeStreamCaptureMode(&mode), "hipThreadExchangeStreamCaptureMode");
        if (!set) return set.error();
        hipModule_t code = nullptr;
        hipFunction_t function = nullptr;
        auto done = hip_result(hipModuleLoadData(&code, image.data()), "hipModuleLoadData");
        if (done) done = hip_result(hipModuleGetFunction(&function, code, symbol.c_str()), "hipModuleGetFunction");
        (void)hipThreadExchangeStreamCaptureMode(&mode);
        if (!done) return (void)hipGetLastError(), done.error();
        return static_cast<void*>(function);
    }
    [[nodiscard]] Result<> launch(void* function, unsigned blocks, unsigned threads, void* stream, void** arguments,
                                  std::string_view name) const {
        auto const done =
            hip_result(hipModuleLaunchKernel(static_cast<hipFunction_t>(function), blocks, 1, 1, threads, 1, 1, 0,
                                             static_cast<hipStream_t>(stream), arguments, nullptr),
                       name);
        // A failure stays behind as the last error, which the next launch would report.
        if (!done) (void)hipGetLastError();
        return done;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
