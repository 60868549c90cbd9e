// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/vendor/dynamic_library.hpp>

#include <array>
#include <initializer_list>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

using NvmlHandle = void*;

/// nvmlPciInfo_t
struct NvmlPciInfo {
    std::array<char, 16> legacy_bus_id;
    unsigned domain, bus, device, device_id, subsystem_id;
    std::array<char, 32> bus_id;
};
static_assert(sizeof(NvmlPciInfo) == 68);

/// nvmlMemory_t
///
/// Units  bytes
struct NvmlMemory {
    unsigned long long total, free, used;
};

/// nvmlDeviceAttributes_t
struct NvmlAttributes {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg_engines, optical_flow_engines, gpu_slices,
        compute_slices;
    unsigned long long memory_mebibytes;
};
static_assert(sizeof(NvmlAttributes) == 40);

/// nvmlReturn_t
enum NvmlStatus : int {
    nvml_success = 0,
    nvml_invalid_argument = 2,
    nvml_not_supported = 3,
    nvml_no_permission = 4,
    nvml_not_found = 6,
    nvml_driver_not_loaded = 9,
    nvml_library_not_found = 12,
    nvml_function_not_found = 13,
    nvml_no_data = 21,
    nvml_version_mismatch = 25,
    nvml_deprecated = 26,
    nvml_gpu_not_found = 28,
    nvml_unknown = 999,
};

/// A function of the library under the name that it was found by.
template <class Function>
struct VendorCall {
    Function* function = nullptr;
    char const* name = "";

    [[nodiscard]] explicit operator bool() const { return function != nullptr; }
};

/// The newest of several spellings of a function that a library has; empty where it has none.
template <class Function>
[[nodiscard]] VendorCall<Function> find_call(DynamicLibrary const& library, std::initializer_list<char const*> names) {
    for (auto const* name : names) {
        if (auto* const function = library.find<Function>(name)) return {function, name};
    }
    return {nullptr, *names.begin()};
}

/// The functions of libnvidia-ml that detection calls. Those after `memory_info` are absent from old or partial
/// libraries.
///
/// Source  nvml.h of CUDA 12 and 13
struct NvmlApi {
    template <class... Arguments>
    using Call = VendorCall<int(Arguments...)>;

    explicit NvmlApi(DynamicLibrary const& library)
        : init(find_call<int()>(library, {"nvmlInit_v2", "nvmlInit"})),
          shutdown(find_call<int()>(library, {"nvmlShutdown"})),
          error_string(find_call<char const*(int)>(library, {"nvmlErrorString"})),
          count(find_call<int(unsigned*)>(library, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"})),
          handle(find_call<int(unsigned, NvmlHandle*)>(
              library, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"})),
          name(find_call<int(NvmlHandle, char*, unsigned)>(library, {"nvmlDeviceGetName"})),
          uuid(find_call<int(NvmlHandle, char*, unsigned)>(library, {"nvmlDeviceGetUUID"})),
          memory_info(find_call<int(NvmlHandle, NvmlMemory*)>(library, {"nvmlDeviceGetMemoryInfo"})),
          pci_info(find_call<int(NvmlHandle, NvmlPciInfo*)>(
              library, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"})),
          compute_capability(find_call<int(NvmlHandle, int*, int*)>(library, {"nvmlDeviceGetCudaComputeCapability"})),
          max_clock(find_call<int(NvmlHandle, unsigned, unsigned*)>(library, {"nvmlDeviceGetMaxClockInfo"})),
          bus_width(find_call<int(NvmlHandle, unsigned*)>(library, {"nvmlDeviceGetMemoryBusWidth"})),
          cores(find_call<int(NvmlHandle, unsigned*)>(library, {"nvmlDeviceGetNumGpuCores"})),
          pcie_generation(find_call<int(NvmlHandle, unsigned*)>(library, {"nvmlDeviceGetMaxPcieLinkGeneration"})),
          pcie_width(find_call<int(NvmlHandle, unsigned*)>(library, {"nvmlDeviceGetMaxPcieLinkWidth"})),
          cpu_affinity(find_call<int(NvmlHandle, unsigned, unsigned long*)>(library, {"nvmlDeviceGetCpuAffinity"})),
          memory_affinity(
              find_call<int(NvmlHandle, unsigned, unsigned long*, unsigned)>(library, {"nvmlDeviceGetMemoryAffinity"})),
          mig_mode(find_call<int(NvmlHandle, unsigned*, unsigned*)>(library, {"nvmlDeviceGetMigMode"})),
          max_mig_count(find_call<int(NvmlHandle, unsigned*)>(library, {"nvmlDeviceGetMaxMigDeviceCount"})),
          mig_handle(
              find_call<int(NvmlHandle, unsigned, NvmlHandle*)>(library, {"nvmlDeviceGetMigDeviceHandleByIndex"})),
          gpu_instance(find_call<int(NvmlHandle, unsigned*)>(library, {"nvmlDeviceGetGpuInstanceId"})),
          compute_instance(find_call<int(NvmlHandle, unsigned*)>(library, {"nvmlDeviceGetComputeInstanceId"})),
          attributes(find_call<int(NvmlHandle, NvmlAttributes*)>(
              library, {"nvmlDeviceGetAttributes_v2", "nvmlDeviceGetAttributes"})),
          nvlink_state(find_call<int(NvmlHandle, unsigned, unsigned*)>(library, {"nvmlDeviceGetNvLinkState"})),
          nvlink_remote(find_call<int(NvmlHandle, unsigned, NvmlPciInfo*)>(
              library, {"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo"})),
          nvlink_remote_type(
              find_call<int(NvmlHandle, unsigned, unsigned*)>(library, {"nvmlDeviceGetNvLinkRemoteDeviceType"})),
          common_ancestor(
              find_call<int(NvmlHandle, NvmlHandle, unsigned*)>(library, {"nvmlDeviceGetTopologyCommonAncestor"})) {}

    Call<> init, shutdown;
    VendorCall<char const*(int)> error_string;
    Call<unsigned*> count;
    Call<unsigned, NvmlHandle*> handle;
    Call<NvmlHandle, char*, unsigned> name, uuid;
    Call<NvmlHandle, NvmlMemory*> memory_info;
    Call<NvmlHandle, NvmlPciInfo*> pci_info;
    Call<NvmlHandle, int*, int*> compute_capability;
    Call<NvmlHandle, unsigned, unsigned*> max_clock;
    Call<NvmlHandle, unsigned*> bus_width, cores, pcie_generation, pcie_width;
    Call<NvmlHandle, unsigned, unsigned long*> cpu_affinity;
    Call<NvmlHandle, unsigned, unsigned long*, unsigned> memory_affinity;
    Call<NvmlHandle, unsigned*, unsigned*> mig_mode;
    Call<NvmlHandle, unsigned*> max_mig_count;
    Call<NvmlHandle, unsigned, NvmlHandle*> mig_handle;
    Call<NvmlHandle, unsigned*> gpu_instance, compute_instance;
    Call<NvmlHandle, NvmlAttributes*> attributes;
    Call<NvmlHandle, unsigned, unsigned*> nvlink_state;
    Call<NvmlHandle, unsigned, NvmlPciInfo*> nvlink_remote;
    Call<NvmlHandle, unsigned, unsigned*> nvlink_remote_type;
    Call<NvmlHandle, NvmlHandle, unsigned*> common_ancestor;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
