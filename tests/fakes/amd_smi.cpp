// SPDX-License-Identifier: Apache-2.0
// A libamd_smi.so for tests: the machine is in the file that SHARDWISE_FAKE_AMD_SMI names. Signatures and numbers as in
// AMD's amdsmi.h.
#include "machine_file.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

enum Status { success = 0, invalid = 1, not_supported = 2 };

fakes::Machine machine;
std::vector<fakes::Row> gpus;

using Handle = void*;
Handle handle_of(std::size_t index) {
    return reinterpret_cast<Handle>(index + 1);
}
std::size_t index_of(Handle handle) {
    return reinterpret_cast<std::size_t>(handle) - 1;
}
int status(char const* call, Handle handle) {
    return machine.status(call, static_cast<long long>(index_of(handle)));
}

void put_text(unsigned char* out, std::size_t offset, std::string const& text) {
    std::memcpy(out + offset, text.c_str(), text.size() + 1);
}

}  // namespace

extern "C" {

int amdsmi_init(std::uint64_t) {
    machine.load("SHARDWISE_FAKE_AMD_SMI");
    gpus = machine.rows("gpu");
    return machine.status("amdsmi_init");
}
int amdsmi_shut_down() {
    return success;
}
int amdsmi_status_code_to_string(int code, char const** text) {
    *text = code == 10 ? "Permission Denied" : code == 7 ? "API call failed" : "Unknown";
    return success;
}
// One socket for each GPU, as amd_smi has it.
int amdsmi_get_socket_handles(std::uint32_t* count, Handle* sockets) {
    for (std::size_t i = 0; sockets != nullptr && i < gpus.size() && i < *count; ++i) sockets[i] = handle_of(i);
    *count = static_cast<std::uint32_t>(gpus.size());
    return machine.status("amdsmi_get_socket_handles");
}
int amdsmi_get_processor_handles(Handle socket, std::uint32_t* count, Handle* processors) {
    if (processors != nullptr && *count > 0) processors[0] = socket;
    *count = 1;
    return status("amdsmi_get_processor_handles", socket);
}
int amdsmi_get_processor_type(Handle, int* type) {
    *type = 1;
    return success;
}
int amdsmi_get_gpu_device_bdf(Handle handle, std::uint64_t* out) {
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    std::sscanf(gpus.at(index_of(handle)).text("pci").c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function);
    *out = static_cast<std::uint64_t>(domain) << 16U | bus << 8U | device << 3U | function;
    return status("amdsmi_get_gpu_device_bdf", handle);
}
#ifdef FAKE_AMD_SMI_WITHOUT_MEMORY
int amdsmi_get_gpu_vram_usage(Handle handle, std::uint32_t* out) {
    out[0] = static_cast<std::uint32_t>(gpus.at(index_of(handle)).number("memory") >> 20U);
    out[1] = static_cast<std::uint32_t>(gpus.at(index_of(handle)).number("used") >> 20U);
    return status("amdsmi_get_gpu_vram_usage", handle);
}
#else
int amdsmi_get_gpu_memory_total(Handle handle, int type, std::uint64_t* out) {
    if (type != 0) return invalid;
    *out = gpus.at(index_of(handle)).number("memory");
    return status("amdsmi_get_gpu_memory_total", handle);
}
int amdsmi_get_gpu_memory_usage(Handle handle, int type, std::uint64_t* out) {
    if (type != 0) return invalid;
    *out = gpus.at(index_of(handle)).number("used");
    return status("amdsmi_get_gpu_memory_usage", handle);
}
#endif
int amdsmi_get_gpu_device_uuid(Handle handle, unsigned* length, char* out) {
    std::snprintf(out, *length, "%s", gpus.at(index_of(handle)).text("uuid").c_str());
    return success;
}
// The structure of three releases: texts of 64 bytes, a name of 256, all of 256.
int amdsmi_get_gpu_asic_info(Handle handle, void* info) {
    auto const& gpu = gpus.at(index_of(handle));
    auto* const out = static_cast<unsigned char*>(info);
    auto const layout = gpu.number("layout", 3);
    std::memset(out, 0, layout == 1 ? 256 : layout == 2 ? 448 : 896);
    std::uint32_t const vendor = 0x1002;
    put_text(out, 0, gpu.text("name"));
    std::memcpy(out + (layout == 1 ? 64 : 256), &vendor, sizeof vendor);
    put_text(out, layout == 1 ? 68 : 260, "Advanced Micro Devices Inc. [AMD/ATI]");
    put_text(out, layout == 1 ? 148 : layout == 2 ? 340 : 532, gpu.text("serial"));
    return status("amdsmi_get_gpu_asic_info", handle);
}
int amdsmi_topo_get_numa_node_number(Handle handle, std::uint32_t* out) {
    if (!gpus.at(index_of(handle)).has("numa")) return not_supported;
    *out = static_cast<std::uint32_t>(gpus.at(index_of(handle)).number("numa"));
    return success;
}
int amdsmi_topo_get_link_type(Handle first, Handle second, std::uint64_t* hops, int* type) {
    if (auto const failed = status("amdsmi_topo_get_link_type", first)) return failed;
    *hops = 1;
    *type = 1;
    for (auto const& row : machine.rows("xgmi")) {
        auto const a = row.number("first");
        auto const b = row.number("second");
        if ((a == index_of(first) && b == index_of(second)) || (b == index_of(first) && a == index_of(second)))
            *type = 2;
    }
    return success;
}
int amdsmi_get_minmax_bandwidth_between_processors(Handle first, Handle second, std::uint64_t* least,
                                                   std::uint64_t* most) {
    for (auto const& row : machine.rows("xgmi")) {
        auto const a = row.number("first");
        auto const b = row.number("second");
        if ((a != index_of(first) || b != index_of(second)) && (b != index_of(first) || a != index_of(second)))
            continue;
        *least = *most = row.number("megabytes");
        return success;
    }
    return not_supported;
}

}  // extern "C"
