// SPDX-License-Identifier: Apache-2.0
// The functions of the fake NVML that monitoring calls: what the rows "series" of the machine file say, value by value.
// nvml.cpp includes this at its end.

namespace {

struct Utilization {
    unsigned gpu, memory;
};
struct MemoryV2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct FieldValue {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type;
    int status;
    union {
        double real;
        unsigned small;
        unsigned long long large;
    } value;
};
struct GpmMetric {
    unsigned metric;
    int status;
    double value;
    char const* names[3];
};
struct GpmQuestion {
    unsigned version, count;
    void *first, *second;
    GpmMetric metrics[98];
};
struct GpmSupport {
    unsigned version, is_supported;
};

// A MIG instance's readings are those of the device 1000 + its row.
long long reader_of(Handle handle) {
    return is_instance(handle) ? static_cast<long long>(number_of(handle)) : index_of(handle);
}
template <class Number>
int read(char const* call, Handle handle, char const* key, Number* out) {
    if (auto const failed = status(call, handle)) return failed;
    auto const value = machine.reading(key, reader_of(handle));
    if (!value) return not_supported;
    *out = static_cast<Number>(*value);
    return success;
}

}  // namespace

extern "C" {

int nvmlDeviceGetHandleByUUID(char const* uuid, Handle* out) {
    if (auto const failed = status("nvmlDeviceGetHandleByUUID")) return failed;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        if (gpus[i].text("uuid") == uuid) return *out = handle_of(i + 1), success;
    }
    for (std::size_t i = 0; i < instances.size(); ++i) {
        if (instances[i].text("uuid") == uuid) return *out = handle_of(1000 + i), success;
    }
    return not_found;
}
// GPUs whose row has "reserved" have a driver from 510 on.
int nvmlDeviceGetMemoryInfo_v2(Handle handle, MemoryV2* out) {
    if (auto const failed = status("nvmlDeviceGetMemoryInfo_v2", handle)) return failed;
    if (!row_of(handle).has("reserved")) return not_supported;
    if (out->version != 0x2000028) return 25;
    out->total = row_of(handle).number("memory");
    out->free = row_of(handle).number("free", out->total);
    out->reserved = row_of(handle).number("reserved");
    out->used = out->total - out->free - out->reserved;
    return success;
}
int nvmlDeviceGetUtilizationRates(Handle handle, Utilization* out) {
    out->memory = 0;
    return read("nvmlDeviceGetUtilizationRates", handle, "utilization", &out->gpu);
}
int nvmlDeviceGetTemperature(Handle handle, unsigned, unsigned* out) {
    return read("nvmlDeviceGetTemperature", handle, "temperature", out);
}
int nvmlDeviceGetPowerUsage(Handle handle, unsigned* out) {
    return read("nvmlDeviceGetPowerUsage", handle, "power", out);
}
int nvmlDeviceGetTotalEnergyConsumption(Handle handle, unsigned long long* out) {
    return read("nvmlDeviceGetTotalEnergyConsumption", handle, "energy", out);
}
int nvmlDeviceGetClockInfo(Handle handle, unsigned kind, unsigned* out) {
    return read("nvmlDeviceGetClockInfo", handle, kind == 1 ? "sm_clock" : "memory_clock", out);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Handle handle, unsigned long long* out) {
    return read("nvmlDeviceGetCurrentClocksThrottleReasons", handle, "throttle", out);
}
int nvmlDeviceGetComputeRunningProcesses_v3(Handle handle, unsigned* count, void*) {
    unsigned found = 0;
    if (auto const failed = read("nvmlDeviceGetComputeRunningProcesses_v3", handle, "processes", &found)) return failed;
    bool const has_room = *count >= found;
    *count = found;
    return has_room ? success : insufficient_size;
}
// Fields 82, 83, 186, 197, 198, 138 and 139 by the series of their names; PCIe bytes have 32 bits where the GPU says so.
int nvmlDeviceGetFieldValues(Handle handle, int count, FieldValue* values) {
    if (auto const failed = status("nvmlDeviceGetFieldValues", handle)) return failed;
    for (int i = 0; i < count; ++i) {
        auto& field = values[i];
        char const* const key = field.field == 82    ? "memory_temperature"
                                : field.field == 83  ? "field_energy"
                                : field.field == 186 ? "field_power"
                                : field.field == 197 ? "pcie_sent"
                                : field.field == 198 ? "pcie_received"
                                : field.field == 138 ? "nvlink_sent"
                                                     : "nvlink_received";
        auto const value = machine.reading(key, reader_of(handle));
        field.status = value ? success : not_supported;
        if (!value) continue;
        bool const is_small = field.field == 82 || field.field == 186 || (field.field >= 197 && row_of(handle).has("narrow"));
        field.type = is_small ? 1 : 3;
        if (is_small)
            field.value.small = static_cast<unsigned>(*value);
        else
            field.value.large = static_cast<unsigned long long>(*value);
    }
    return success;
}
int nvmlGpmQueryDeviceSupport(Handle handle, GpmSupport* out) {
    out->is_supported = row_of(handle).has("gpm") ? 1 : 0;
    return out->version == 1 ? success : invalid_argument;
}
int nvmlGpmSampleAlloc(void** out) {
    *out = new long long(-1);
    return success;
}
int nvmlGpmSampleFree(void* sample) {
    delete static_cast<long long*>(sample);
    return success;
}
int nvmlGpmSampleGet(Handle handle, void* sample) {
    if (auto const failed = status("nvmlGpmSampleGet", handle)) return failed;
    *static_cast<long long*>(sample) = index_of(handle);
    return success;
}
int nvmlGpmMetricsGet(GpmQuestion* question) {
    if (question->version != 1 || question->first == nullptr || question->second == nullptr) return invalid_argument;
    for (unsigned i = 0; i < question->count; ++i) {
        auto& metric = question->metrics[i];
        char const* const key = metric.metric == 2 ? "gpm_sm" : metric.metric == 5 ? "gpm_tensor" : "gpm_dram";
        auto const value = machine.reading(key, *static_cast<long long*>(question->second));
        metric.status = value ? success : not_supported;
        metric.value = value.value_or(0.0);
    }
    return success;
}

}  // extern "C"
