// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/hardware/vendor/call_watch.hpp>
#include <shardwise/hardware/vendor/nvml_api.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// NVML between its initialisation and its shutdown. Every call goes through here: it is announced to the watch, and
/// its status becomes a value, "unknown", or an error with the call's name.
class NvmlSession {
public:
    NvmlSession(NvmlApi const& api, CallWatch& watch) : api_(api), watch_(watch) {}
    NvmlSession(NvmlSession const&) = delete;
    NvmlSession& operator=(NvmlSession const&) = delete;
    ~NvmlSession() {
        if (!is_open_ || !api_.shutdown) return;
        watch_.begin(api_.shutdown.name);
        api_.shutdown.function();
    }

    [[nodiscard]] NvmlApi const& api() const { return api_; }

    /// Initialises the library; false where there is no driver or no GPU.
    ///
    /// Errors  backend_failure
    [[nodiscard]] Result<bool> open() {
        if (!api_.init) return lacks(api_.init.name);
        auto const status = status_of(api_.init);
        if (status == nvml_driver_not_loaded || status == nvml_library_not_found || status == nvml_gpu_not_found)
            return false;
        if (status != nvml_success) return failure(api_.init.name, status, -1);
        is_open_ = true;
        return true;
    }

    /// A call's bare status; the library must have the function.
    template <class Function, class... Arguments>
    [[nodiscard]] int status_of(VendorCall<Function> const& call, Arguments... arguments) const {
        watch_.begin(call.name);
        return call.function(arguments...);
    }

    /// A call without which there is no device: true, or false where the device has no such property.
    ///
    /// Errors  backend_failure: the library lacks the function, or the call failed
    template <class Function, class... Arguments>
    [[nodiscard]] Result<bool> require(VendorCall<Function> const& call, int device, Arguments... arguments) const {
        if (!call) return lacks(call.name);
        auto const status = status_of(call, arguments...);
        if (status == nvml_success) return true;
        if (status == nvml_not_supported) return false;
        return failure(call.name, status, device);
    }

    /// A call whose answer may stay unknown: false where the library, the device or the user's rights lack it, and,
    /// with a warning, where the driver fails without a reason, as some do for what a virtual GPU lacks.
    ///
    /// Errors  backend_failure: the device or its driver is broken
    template <class Function, class... Arguments>
    [[nodiscard]] Result<bool> ask(VendorCall<Function> const& call, int device, Arguments... arguments) const {
        if (!call) return false;
        auto const status = status_of(call, arguments...);
        switch (status) {
            case nvml_success:
                return true;
            case nvml_invalid_argument:
            case nvml_not_supported:
            case nvml_no_permission:
            case nvml_not_found:
            case nvml_function_not_found:
            case nvml_no_data:
            case nvml_version_mismatch:
            case nvml_deprecated:
                return false;
            case nvml_unknown:
                warn(failure(call.name, status, device).reason(), call.name);
                return false;
            default:
                return failure(call.name, status, device);
        }
    }

    [[nodiscard]] Error failure(char const* call, int status, int device) const {
        char const* const words = api_.error_string ? api_.error_string.function(status) : nullptr;
        auto reason = std::string("failed with ") + (words == nullptr ? "an unnamed status" : words);
        if (device >= 0) reason += " on NVIDIA device " + std::to_string(device);
        return Error{ErrorCode::backend_failure}.in(call).because(reason).got(status).fix(
            "see what nvidia-smi and dmesg say; a restart or a matching driver usually helps");
    }
    [[nodiscard]] static Error lacks(char const* call) {
        return Error{ErrorCode::backend_failure}
            .in(call)
            .because("is missing from the NVIDIA management library")
            .fix("install the libnvidia-ml.so.1 that belongs to the driver");
    }

    /// What could not be asked, a sentence for each.
    [[nodiscard]] std::vector<std::string> const& warnings() const { return warnings_; }

private:
    void warn(std::string_view reason, char const* call) const {
        auto text = std::string(call) + " " + std::string(reason) + ": what it tells stays unknown";
        if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end())
            warnings_.push_back(std::move(text));
    }

    NvmlApi const& api_;
    CallWatch& watch_;
    mutable std::vector<std::string> warnings_;
    bool is_open_ = false;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
