// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/vendor/call_watch.hpp>
#include <shardwise/hardware/vendor/nvml_api.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

using AmdHandle = void*;

/// amdsmi_status_t
enum AmdStatus : int {
    amd_success = 0,
    amd_invalid = 1,
    amd_not_supported = 2,
    amd_not_yet_implemented = 3,
    amd_api_failed = 7,
    amd_no_permission = 10,
    amd_file_error = 14,
    amd_not_found = 31,
    amd_driver_not_loaded = 34,
    amd_no_data = 40,
    amd_unexpected_data = 43,
    amd_no_driver = 51,
    amd_file_not_found = 52,
    amd_unknown_error = -1,
};

/// The functions of libamd_smi that detection calls, all of them the same since ROCm 6.0 and none with a structure in
/// its signature but the first bytes of amdsmi_asic_info_t: those structures have changed with every other release.
///
/// Source  amd_smi/amdsmi.h of ROCm 6.0 to 7.0
struct AmdSmiApi {
    template <class... Arguments>
    using Call = VendorCall<int(Arguments...)>;

    explicit AmdSmiApi(DynamicLibrary const& library)
        : init(find_call<int(std::uint64_t)>(library, {"amdsmi_init"})),
          shut_down(find_call<int()>(library, {"amdsmi_shut_down"})),
          status_text(find_call<int(int, char const**)>(library, {"amdsmi_status_code_to_string"})),
          sockets(find_call<int(std::uint32_t*, AmdHandle*)>(library, {"amdsmi_get_socket_handles"})),
          processors(find_call<int(AmdHandle, std::uint32_t*, AmdHandle*)>(library, {"amdsmi_get_processor_handles"})),
          processor_type(find_call<int(AmdHandle, int*)>(library, {"amdsmi_get_processor_type"})),
          bdf(find_call<int(AmdHandle, std::uint64_t*)>(library, {"amdsmi_get_gpu_device_bdf"})),
          memory_total(find_call<int(AmdHandle, int, std::uint64_t*)>(library, {"amdsmi_get_gpu_memory_total"})),
          memory_used(find_call<int(AmdHandle, int, std::uint64_t*)>(library, {"amdsmi_get_gpu_memory_usage"})),
          vram_usage(find_call<int(AmdHandle, void*)>(library, {"amdsmi_get_gpu_vram_usage"})),
          uuid(find_call<int(AmdHandle, unsigned*, char*)>(library, {"amdsmi_get_gpu_device_uuid"})),
          asic_info(find_call<int(AmdHandle, void*)>(library, {"amdsmi_get_gpu_asic_info"})),
          numa_node(find_call<int(AmdHandle, std::uint32_t*)>(library, {"amdsmi_topo_get_numa_node_number"})),
          link_type(find_call<int(AmdHandle, AmdHandle, std::uint64_t*, int*)>(library, {"amdsmi_topo_get_link_type"})),
          link_bandwidth(find_call<int(AmdHandle, AmdHandle, std::uint64_t*, std::uint64_t*)>(
              library, {"amdsmi_get_minmax_bandwidth_between_processors"})) {}

    Call<std::uint64_t> init;
    Call<> shut_down;
    Call<int, char const**> status_text;
    Call<std::uint32_t*, AmdHandle*> sockets;
    Call<AmdHandle, std::uint32_t*, AmdHandle*> processors;
    Call<AmdHandle, int*> processor_type;
    Call<AmdHandle, std::uint64_t*> bdf;
    Call<AmdHandle, int, std::uint64_t*> memory_total, memory_used;
    /// Stands in for the two before it: total and used in MiB, 32 bits each.
    Call<AmdHandle, void*> vram_usage;
    Call<AmdHandle, unsigned*, char*> uuid;
    Call<AmdHandle, void*> asic_info;
    Call<AmdHandle, std::uint32_t*> numa_node;
    Call<AmdHandle, AmdHandle, std::uint64_t*, int*> link_type;
    Call<AmdHandle, AmdHandle, std::uint64_t*, std::uint64_t*> link_bandwidth;
};

/// amd_smi between its initialisation and its shutdown; calls are announced, statuses become values or errors.
class AmdSmiSession {
public:
    AmdSmiSession(AmdSmiApi const& api, CallWatch& watch) : api_(api), watch_(watch) {}
    AmdSmiSession(AmdSmiSession const&) = delete;
    AmdSmiSession& operator=(AmdSmiSession const&) = delete;
    ~AmdSmiSession() {
        if (!is_open_ || !api_.shut_down) return;
        watch_.begin(api_.shut_down.name);
        api_.shut_down.function();
    }

    [[nodiscard]] AmdSmiApi const& api() const { return api_; }

    /// Initialises the library for GPUs; false where there is no driver.
    ///
    /// Errors  backend_failure
    [[nodiscard]] Result<bool> open() {
        if (!api_.init) return lacks(api_.init.name);
        constexpr std::uint64_t gpus = 2;
        watch_.begin(api_.init.name);
        auto const status = api_.init.function(gpus);
        if (status == amd_driver_not_loaded || status == amd_no_driver || status == amd_not_found) return false;
        if (status != amd_success) return failure(api_.init.name, status, -1);
        is_open_ = true;
        return true;
    }

    /// A call without which there is no device.
    ///
    /// Errors  backend_failure
    template <class Function, class... Arguments>
    [[nodiscard]] Result<> require(VendorCall<Function> const& call, int device, Arguments... arguments) const {
        if (!call) return lacks(call.name);
        watch_.begin(call.name);
        auto const status = call.function(arguments...);
        if (status != amd_success) return failure(call.name, status, device);
        return {};
    }

    /// A call whose answer may stay unknown; with a warning where it fails without a reason.
    ///
    /// Errors  backend_failure
    template <class Function, class... Arguments>
    [[nodiscard]] Result<bool> ask(VendorCall<Function> const& call, int device, Arguments... arguments) const {
        if (!call) return false;
        watch_.begin(call.name);
        auto const status = call.function(arguments...);
        switch (status) {
            case amd_success:
                return true;
            case amd_invalid:
            case amd_not_supported:
            case amd_not_yet_implemented:
            case amd_no_permission:
            case amd_file_error:
            case amd_not_found:
            case amd_no_data:
            case amd_unexpected_data:
            case amd_file_not_found:
                return false;
            case amd_api_failed:
            case amd_unknown_error:
                warn(failure(call.name, status, device).reason(), call.name);
                return false;
            default:
                return failure(call.name, status, device);
        }
    }

    /// What could not be asked, a sentence for each.
    [[nodiscard]] std::vector<std::string> const& warnings() const { return warnings_; }

private:
    void warn(std::string_view reason, char const* call) const {
        auto text = std::string(call) + " " + std::string(reason) + ": what it tells stays unknown";
        if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end())
            warnings_.push_back(std::move(text));
    }

    [[nodiscard]] Error failure(char const* call, int status, int device) const {
        char const* words = nullptr;
        if (api_.status_text && api_.status_text.function(status, &words) != amd_success) words = nullptr;
        auto reason = std::string("failed with ") + (words == nullptr ? "an unnamed status" : words);
        if (device >= 0) reason += " on AMD device " + std::to_string(device);
        return Error{ErrorCode::backend_failure}.in(call).because(reason).got(status).fix(
            "see what amd-smi and dmesg say; a restart or a matching driver usually helps");
    }
    [[nodiscard]] static Error lacks(char const* call) {
        return Error{ErrorCode::backend_failure}
            .in(call)
            .because("is missing from AMD's management library")
            .fix("install the amd-smi-lib that belongs to the driver");
    }

    AmdSmiApi const& api_;
    CallWatch& watch_;
    mutable std::vector<std::string> warnings_;
    bool is_open_ = false;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
