// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml.so.1 for tests: the machine is in the file that SHARDWISE_FAKE_NVML names. Signatures and numbers as
// in NVIDIA's nvml.h. With FAKE_NVML_WITHOUT_UUID it lacks a function, as a broken installation does.
#include "machine_file.hpp"

#include <cstdio>
#include <cstring>

namespace {

enum Status { success = 0, invalid_argument = 2, not_supported = 3, not_found = 6, insufficient_size = 7 };

struct PciInfo {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem;
    char bus_id[32];
};
struct Memory {
    unsigned long long total, free, used;
};
struct Attributes {
    unsigned processors, copy, decoders, encoders, jpeg, optical, gpu_slices, compute_slices;
    unsigned long long memory_mebibytes;
};

fakes::Machine machine;
std::vector<fakes::Row> gpus;
std::vector<fakes::Row> instances;

// Handles: 1 + number for GPUs, 1000 + number for MIG instances.
using Handle = void*;
Handle handle_of(std::size_t number) {
    return reinterpret_cast<Handle>(number);
}
std::size_t number_of(Handle handle) {
    return reinterpret_cast<std::size_t>(handle);
}
bool is_instance(Handle handle) {
    return number_of(handle) >= 1000;
}
fakes::Row const& row_of(Handle handle) {
    return is_instance(handle) ? instances.at(number_of(handle) - 1000) : gpus.at(number_of(handle) - 1);
}
long long index_of(Handle handle) {
    return is_instance(handle) ? static_cast<long long>(row_of(handle).number("parent"))
                               : static_cast<long long>(number_of(handle)) - 1;
}
int status(char const* call, Handle handle = nullptr) {
    return machine.status(call, handle == nullptr ? -1 : index_of(handle));
}
int put(std::string const& text, char* out, unsigned size) {
    if (text.size() + 1 > size) return insufficient_size;
    std::memcpy(out, text.c_str(), text.size() + 1);
    return success;
}
int put_number(char const* call, Handle handle, char const* key, unsigned* out) {
    if (auto const failed = status(call, handle)) return failed;
    if (!row_of(handle).has(key)) return not_supported;
    *out = static_cast<unsigned>(row_of(handle).number(key));
    return success;
}
void put_pci(std::string const& text, PciInfo* out) {
    std::memset(out, 0, sizeof *out);
    std::snprintf(out->bus_id, sizeof out->bus_id, "%s", text.c_str());
    std::snprintf(out->legacy, sizeof out->legacy, "%s", text.size() > 4 ? text.c_str() + 4 : "");
}

/// Where a link of a GPU ends: the number of a GPU, -1 at a switch, -2 nowhere.
long long end_of_link(Handle handle, unsigned link) {
    unsigned long long next = 0;
    for (auto const& row : machine.rows("nvlink")) {
        auto const first = static_cast<long long>(row.number("first"));
        auto const second = static_cast<long long>(row.number("second"));
        if (index_of(handle) != first && index_of(handle) != second) continue;
        if (link < next + row.number("count")) return index_of(handle) == first ? second : first;
        next += row.number("count");
    }
    for (auto const& row : machine.rows("nvswitch")) {
        if (static_cast<long long>(row.number("gpu")) == index_of(handle) && link < row.number("count")) return -1;
    }
    return -2;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
    machine.load("SHARDWISE_FAKE_NVML");
    gpus = machine.rows("gpu");
    instances = machine.rows("mig");
    return status("nvmlInit_v2");
}
int nvmlShutdown() {
    return success;
}
char const* nvmlErrorString(int code) {
    switch (code) {
        case 3:
            return "Not Supported";
        case 4:
            return "Insufficient Permissions";
        case 9:
            return "Driver Not Loaded";
        case 15:
            return "GPU is lost";
        case 18:
            return "Driver/library version mismatch";
        default:
            return "Unknown Error";
    }
}
int nvmlDeviceGetCount_v2(unsigned* count) {
    *count = static_cast<unsigned>(gpus.size());
    for (auto const& row : machine.rows("count")) *count = static_cast<unsigned>(row.number("value"));
    return status("nvmlDeviceGetCount_v2");
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle* handle) {
    if (index >= gpus.size()) return invalid_argument;
    *handle = handle_of(index + 1);
    return status("nvmlDeviceGetHandleByIndex_v2", *handle);
}
int nvmlDeviceGetName(Handle handle, char* out, unsigned size) {
    if (auto const failed = status("nvmlDeviceGetName", handle)) return failed;
    return row_of(handle).has("name") ? put(row_of(handle).text("name"), out, size) : invalid_argument;
}
#ifndef FAKE_NVML_WITHOUT_UUID
int nvmlDeviceGetUUID(Handle handle, char* out, unsigned size) {
    if (auto const failed = status("nvmlDeviceGetUUID", handle)) return failed;
    return put(row_of(handle).text("uuid"), out, size);
}
#endif
int nvmlDeviceGetMemoryInfo(Handle handle, Memory* out) {
    if (auto const failed = status("nvmlDeviceGetMemoryInfo", handle)) return failed;
    out->total = row_of(handle).number("memory");
    out->free = row_of(handle).number("free", out->total);
    out->used = out->total - out->free;
    return success;
}
int nvmlDeviceGetPciInfo_v3(Handle handle, PciInfo* out) {
    if (auto const failed = status("nvmlDeviceGetPciInfo_v3", handle)) return failed;
    put_pci(row_of(handle).text("pci"), out);
    return success;
}
int nvmlDeviceGetCudaComputeCapability(Handle handle, int* major, int* minor) {
    if (auto const failed = status("nvmlDeviceGetCudaComputeCapability", handle)) return failed;
    if (!row_of(handle).has("capability")) return not_supported;
    return std::sscanf(row_of(handle).text("capability").c_str(), "%d.%d", major, minor) == 2 ? success : not_supported;
}
int nvmlDeviceGetMaxClockInfo(Handle handle, unsigned kind, unsigned* out) {
    return put_number("nvmlDeviceGetMaxClockInfo", handle, kind == 1 ? "sm_clock" : "memory_clock", out);
}
int nvmlDeviceGetMemoryBusWidth(Handle handle, unsigned* out) {
    return put_number("nvmlDeviceGetMemoryBusWidth", handle, "bus_width", out);
}
int nvmlDeviceGetNumGpuCores(Handle handle, unsigned* out) {
    return put_number("nvmlDeviceGetNumGpuCores", handle, "cores", out);
}
int nvmlDeviceGetMaxPcieLinkGeneration(Handle handle, unsigned* out) {
    return put_number("nvmlDeviceGetMaxPcieLinkGeneration", handle, "pcie_generation", out);
}
int nvmlDeviceGetMaxPcieLinkWidth(Handle handle, unsigned* out) {
    return put_number("nvmlDeviceGetMaxPcieLinkWidth", handle, "pcie_width", out);
}
int nvmlDeviceGetCpuAffinity(Handle handle, unsigned size, unsigned long* set) {
    if (auto const failed = status("nvmlDeviceGetCpuAffinity", handle)) return failed;
    if (!row_of(handle).has("processors") || size < 1) return not_supported;
    set[0] = static_cast<unsigned long>(row_of(handle).number("processors"));
    return success;
}
int nvmlDeviceGetMemoryAffinity(Handle handle, unsigned size, unsigned long* set, unsigned) {
    if (!row_of(handle).has("numa") || size < 1) return not_supported;
    set[0] = 1UL << row_of(handle).number("numa");
    return success;
}
int nvmlDeviceGetMigMode(Handle handle, unsigned* current, unsigned* pending) {
    if (auto const failed = status("nvmlDeviceGetMigMode", handle)) return failed;
    if (!row_of(handle).has("mig")) return not_supported;
    *current = *pending = static_cast<unsigned>(row_of(handle).number("mig"));
    return success;
}
int nvmlDeviceGetMaxMigDeviceCount(Handle, unsigned* count) {
    *count = 7;
    return success;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Handle handle, unsigned index, Handle* out) {
    if (auto const failed = status("nvmlDeviceGetMigDeviceHandleByIndex", handle)) return failed;
    for (std::size_t i = 0; i < instances.size(); ++i) {
        if (static_cast<long long>(instances[i].number("parent")) != index_of(handle)) continue;
        if (instances[i].number("place") != index) continue;
        *out = handle_of(1000 + i);
        return success;
    }
    return not_found;
}
int nvmlDeviceGetGpuInstanceId(Handle handle, unsigned* out) {
    return put_number("nvmlDeviceGetGpuInstanceId", handle, "gpu_instance", out);
}
int nvmlDeviceGetComputeInstanceId(Handle handle, unsigned* out) {
    return put_number("nvmlDeviceGetComputeInstanceId", handle, "compute_instance", out);
}
int nvmlDeviceGetAttributes_v2(Handle handle, Attributes* out) {
    if (!is_instance(handle)) return not_supported;
    std::memset(out, 0, sizeof *out);
    out->gpu_slices = static_cast<unsigned>(row_of(handle).number("slices"));
    out->compute_slices = out->gpu_slices;
    out->memory_mebibytes = row_of(handle).number("memory") >> 20U;
    return success;
}
int nvmlDeviceGetNvLinkState(Handle handle, unsigned link, unsigned* is_active) {
    if (auto const failed = status("nvmlDeviceGetNvLinkState", handle)) return failed;
    if (link >= 18) return invalid_argument;
    *is_active = end_of_link(handle, link) == -2 ? 0 : 1;
    return success;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle handle, unsigned link, PciInfo* out) {
    auto const end = end_of_link(handle, link);
    if (end == -2) return not_supported;
    put_pci(end == -1 ? "00000000:C4:00.0" : gpus.at(static_cast<std::size_t>(end)).text("pci"), out);
    return success;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(Handle handle, unsigned link, unsigned* type) {
    *type = end_of_link(handle, link) == -1 ? 2 : 0;
    return success;
}
int nvmlDeviceGetTopologyCommonAncestor(Handle first, Handle second, unsigned* level) {
    if (auto const failed = status("nvmlDeviceGetTopologyCommonAncestor", first)) return failed;
    for (auto const& row : machine.rows("ancestor")) {
        auto const a = static_cast<long long>(row.number("first"));
        auto const b = static_cast<long long>(row.number("second"));
        if ((a != index_of(first) || b != index_of(second)) && (b != index_of(first) || a != index_of(second)))
            continue;
        *level = static_cast<unsigned>(row.number("level"));
        return success;
    }
    return not_supported;
}

}  // extern "C"

#include "nvml_readings.hpp"
