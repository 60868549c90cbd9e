// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/vendor/nvml_links.hpp>

#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The NVIDIA GPUs of this machine and the ways between them, by NVML, in the driver's order: by PCI address. MIG
/// instances follow their GPU. None where there is no driver.
///
/// Errors  backend_failure with the name of the call where the driver is there and broken
[[nodiscard]] inline Result<VendorDevices> read_nvidia_devices(std::string const& library_name,
                                                               SystemFiles const& files, CallWatch& watch) {
    watch.begin("dlopen of NVIDIA's management library");
    auto const library = DynamicLibrary::open(library_name);
    if (!library) {
        if (library.error().code() == ErrorCode::file_not_found) return VendorDevices{};
        return library.error();
    }
    detail::NvmlApi const api(*library);
    detail::NvmlSession session(api, watch);
    auto const is_open = session.open();
    if (!is_open) return is_open.error();
    if (!*is_open) return VendorDevices{};
    unsigned count = 0;
    if (auto const got = session.require(api.count, -1, &count); !got) return got.error();
    // More than any machine has; keeps a broken count from a long loop.
    constexpr unsigned most = 1024;
    if (count > most) {
        return Error{ErrorCode::backend_failure}
            .in(api.count.name)
            .because("tells an impossible number of GPUs")
            .got(count);
    }
    detail::NvmlReader const reader(session, files);
    std::vector<detail::NvmlGpu> gpus;
    for (unsigned index = 0; index < count; ++index) {
        auto gpu = reader.gpu(static_cast<int>(index));
        if (!gpu) return gpu.error();
        gpus.push_back(*std::move(gpu));
    }
    auto links = detail::read_nvml_links(session, files, gpus);
    if (!links) return links.error();
    VendorDevices found;
    std::vector<std::int32_t> position;
    for (auto const& gpu : gpus) {
        position.push_back(static_cast<std::int32_t>(found.devices.size()));
        found.devices.push_back(gpu.found);
        found.devices.back().device.kind = DeviceKind::cuda;
        auto instances = reader.instances(gpu);
        if (!instances) return instances.error();
        for (auto& instance : *instances) found.devices.push_back(std::move(instance));
    }
    found.warnings = session.warnings();
    for (auto& link : *links) {
        link.first = position[static_cast<std::size_t>(link.first)];
        link.second = position[static_cast<std::size_t>(link.second)];
        found.links.push_back(std::move(link));
    }
    return found;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
