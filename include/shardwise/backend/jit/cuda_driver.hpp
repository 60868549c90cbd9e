// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/hardware/vendor/dynamic_library.hpp>

#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What of CUDA's driver loads and launches kernels, by its C interface: found in libcuda.so.1, which no program links.
///
/// Source  cuda.h of CUDA 11.2 to 13.0
class CudaDriver {
public:
    /// Errors  file_not_found where there is no driver; unsupported where it lacks a function
    [[nodiscard]] static Result<CudaDriver> open(std::string const& name = "libcuda.so.1") {
        auto const library = DynamicLibrary::open(name);
        if (!library) {
            auto error = library.error();
            return error.fix("install NVIDIA's driver for CUDA 12 or later");
        }
        CudaDriver out;
        char const* missing = nullptr;
        auto const find = [&]<class Function>(Function*& to, char const* symbol) {
            to = library->template find<Function>(symbol);
            if (to == nullptr && missing == nullptr) missing = symbol;
        };
        find(out.current_context_, "cuCtxGetCurrent");
        find(out.current_device_, "cuCtxGetDevice");
        find(out.attribute_, "cuDeviceGetAttribute");
        find(out.load_, "cuModuleLoadData");
        find(out.function_, "cuModuleGetFunction");
        find(out.launch_, "cuLaunchKernel");
        find(out.exchange_mode_, "cuThreadExchangeStreamCaptureMode");
        find(out.error_string_, "cuGetErrorString");
        if (missing != nullptr) {
            return Error{ErrorCode::unsupported}
                .in(name)
                .at(missing)
                .because("is not in it: the driver is too old")
                .fix("install a driver for CUDA 12 or later");
        }
        return out;
    }

    /// The context that this thread's calls of the runtime made current.
    [[nodiscard]] Result<void*> current_context() const {
        void* context = nullptr;
        if (auto const asked = result(current_context_(&context), "cuCtxGetCurrent"); !asked) return asked.error();
        if (context == nullptr)
            return Error{ErrorCode::no_such_device}.in("cuCtxGetCurrent").because("no device is current");
        return context;
    }
    /// The compute capability of the current context's device: 90 of 9.0.
    [[nodiscard]] Result<int> capability() const {
        // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
        constexpr int major = 75;
        constexpr int minor = 76;
        int device = 0;
        if (auto const asked = result(current_device_(&device), "cuCtxGetDevice"); !asked) return asked.error();
        int values[2] = {};
        for (int i = 0; i < 2; ++i) {
            auto const asked = result(attribute_(&values[i], i == 0 ? major : minor, device), "cuDeviceGetAttribute");
            if (!asked) return asked.error();
        }
        return 10 * values[0] + values[1];
    }
    /// Brings an image into the current context, for as long as that lives, and finds a kernel in it.
    [[nodiscard]] Result<void*> load(std::string const& image, std::string const& symbol) const {
        // Loading is no part of what a stream that is captured takes down.
        int mode = relaxed;
        if (auto const set = result(exchange_mode_(&mode), "cuThreadExchangeStreamCaptureMode"); !set)
            return set.error();
        void* code = nullptr;
        void* function = nullptr;
        auto done = result(load_(&code, image.data()), "cuModuleLoadData");
        if (done) done = result(function_(&function, code, symbol.c_str()), "cuModuleGetFunction");
        (void)exchange_mode_(&mode);
        if (!done) return done.error();
        return function;
    }
    [[nodiscard]] Result<> launch(void* function, unsigned blocks, unsigned threads, void* stream, void** arguments,
                                  std::string_view name) const {
        return result(launch_(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr), name);
    }

private:
    /// CU_STREAM_CAPTURE_MODE_RELAXED.
    static constexpr int relaxed = 2;

    /// A status as a result: the call's name, and what the driver says of it.
    [[nodiscard]] Result<> result(int status, std::string_view call) const {
        if (status == 0) return {};
        char const* text = nullptr;
        (void)error_string_(status, &text);
        // CUDA_ERROR_OUT_OF_MEMORY
        auto const code = status == 2 ? ErrorCode::out_of_memory : ErrorCode::backend_failure;
        return Error{code}.in(call).because(text == nullptr ? "failed" : text).got(status);
    }

    int (*current_context_)(void**) = nullptr;
    int (*current_device_)(int*) = nullptr;
    int (*attribute_)(int*, int attribute, int device) = nullptr;
    int (*load_)(void**, void const*) = nullptr;
    int (*function_)(void**, void* code, char const*) = nullptr;
    int (*launch_)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void* stream,
                   void** arguments, void** extra) = nullptr;
    int (*exchange_mode_)(int*) = nullptr;
    int (*error_string_)(int, char const**) = nullptr;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
