// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/vendor/nvml_api.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// nvmlUtilization_t
///
/// Units  percent
struct NvmlUtilization {
    unsigned gpu, memory;
};

/// nvmlMemory_v2_t: `used` is without what the driver reserves, as nvidia-smi shows it.
///
/// Units  bytes
struct NvmlMemoryV2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
static_assert(sizeof(NvmlMemoryV2) == 40);
inline constexpr unsigned nvml_memory_v2 = sizeof(NvmlMemoryV2) | 2U << 24U;

/// nvmlFieldValue_t
struct NvmlFieldValue {
    unsigned field;
    unsigned scope;
    long long timestamp;
    long long latency;
    /// nvmlValueType_t: 0 double, 1 unsigned int, 2 unsigned long, 3 unsigned long long, 4 signed long long, 5 signed int.
    unsigned type;
    int status;
    union {
        double real;
        unsigned small;
        unsigned long long large;
        long long signed_large;
        int signed_small;
    } value;
};
static_assert(sizeof(NvmlFieldValue) == 40);

/// nvmlGpmMetric_t
struct NvmlGpmMetric {
    unsigned metric;
    int status;
    double value;
    char const* names[3];
};
static_assert(sizeof(NvmlGpmMetric) == 40);

/// nvmlGpmMetricsGet_t of version 1. The library reads as many metrics as `count` says; the array has grown with releases.
struct NvmlGpmQuestion {
    unsigned version;
    unsigned count;
    void* first;
    void* second;
    NvmlGpmMetric metrics[98];
};

/// nvmlGpmSupport_t of version 1
struct NvmlGpmSupport {
    unsigned version;
    unsigned is_supported;
};

/// The lost device's status: it fell off the bus.
inline constexpr int nvml_gpu_is_lost = 15;
inline constexpr int nvml_insufficient_size = 7;

/// The functions of libnvidia-ml that monitoring calls; none of them waits or measures. nvmlDeviceGetPcieThroughput is not
/// among them: it measures for 20 ms.
///
/// Source  nvml.h of CUDA 12 and 13
struct NvmlMonitorApi {
    template <class... Arguments>
    using Call = VendorCall<int(Arguments...)>;

    explicit NvmlMonitorApi(DynamicLibrary const& library)
        : handle_by_uuid(find_call<int(char const*, NvmlHandle*)>(library, {"nvmlDeviceGetHandleByUUID"})),
          memory_info(find_call<int(NvmlHandle, NvmlMemoryV2*)>(library, {"nvmlDeviceGetMemoryInfo_v2"})),
          utilization(find_call<int(NvmlHandle, NvmlUtilization*)>(library, {"nvmlDeviceGetUtilizationRates"})),
          temperature(find_call<int(NvmlHandle, unsigned, unsigned*)>(library, {"nvmlDeviceGetTemperature"})),
          power(find_call<int(NvmlHandle, unsigned*)>(library, {"nvmlDeviceGetPowerUsage"})),
          energy(find_call<int(NvmlHandle, unsigned long long*)>(library, {"nvmlDeviceGetTotalEnergyConsumption"})),
          clock(find_call<int(NvmlHandle, unsigned, unsigned*)>(library, {"nvmlDeviceGetClockInfo"})),
          throttle_reasons(find_call<int(NvmlHandle, unsigned long long*)>(
              library, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"})),
          processes(find_call<int(NvmlHandle, unsigned*, void*)>(
              library, {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
                        "nvmlDeviceGetComputeRunningProcesses"})),
          field_values(find_call<int(NvmlHandle, int, NvmlFieldValue*)>(library, {"nvmlDeviceGetFieldValues"})),
          gpm_support(find_call<int(NvmlHandle, NvmlGpmSupport*)>(library, {"nvmlGpmQueryDeviceSupport"})),
          gpm_alloc(find_call<int(void**)>(library, {"nvmlGpmSampleAlloc"})),
          gpm_free(find_call<int(void*)>(library, {"nvmlGpmSampleFree"})),
          gpm_sample(find_call<int(NvmlHandle, void*)>(library, {"nvmlGpmSampleGet"})),
          gpm_metrics(find_call<int(NvmlGpmQuestion*)>(library, {"nvmlGpmMetricsGet"})) {}

    Call<char const*, NvmlHandle*> handle_by_uuid;
    Call<NvmlHandle, NvmlMemoryV2*> memory_info;
    Call<NvmlHandle, NvmlUtilization*> utilization;
    Call<NvmlHandle, unsigned, unsigned*> temperature;
    Call<NvmlHandle, unsigned*> power;
    Call<NvmlHandle, unsigned long long*> energy;
    Call<NvmlHandle, unsigned, unsigned*> clock;
    Call<NvmlHandle, unsigned long long*> throttle_reasons;
    Call<NvmlHandle, unsigned*, void*> processes;
    Call<NvmlHandle, int, NvmlFieldValue*> field_values;
    Call<NvmlHandle, NvmlGpmSupport*> gpm_support;
    Call<void**> gpm_alloc;
    Call<void*> gpm_free;
    Call<NvmlHandle, void*> gpm_sample;
    Call<NvmlGpmQuestion*> gpm_metrics;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
