// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/stable_sort.hpp>
#include <shardwise/hardware/vendor/amd_reader.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The GPUs that amd_smi lists.
///
/// Errors  backend_failure
[[nodiscard]] inline Result<std::vector<AmdGpu>> read_amd_smi_gpus(AmdSmiSession const& session,
                                                                   AmdReader const& reader) {
    // More than any machine has; keeps broken counts from long loops.
    constexpr std::uint32_t most = 1024;
    auto const& api = session.api();
    std::uint32_t count = 0;
    if (auto const got = session.require(api.sockets, -1, &count, static_cast<AmdHandle*>(nullptr)); !got)
        return got.error();
    std::vector<AmdHandle> sockets(std::min(count, most));
    count = static_cast<std::uint32_t>(sockets.size());
    if (count > 0) {
        if (auto const got = session.require(api.sockets, -1, &count, sockets.data()); !got) return got.error();
        sockets.resize(std::min<std::size_t>(count, sockets.size()));
    }
    std::vector<AmdGpu> gpus;
    for (auto* const socket : sockets) {
        std::uint32_t held = 0;
        if (auto const got = session.require(api.processors, -1, socket, &held, static_cast<AmdHandle*>(nullptr));
            !got) {
            return got.error();
        }
        std::vector<AmdHandle> processors(std::min(held, most));
        held = static_cast<std::uint32_t>(processors.size());
        if (held > 0) {
            if (auto const got = session.require(api.processors, -1, socket, &held, processors.data()); !got)
                return got.error();
            processors.resize(std::min<std::size_t>(held, processors.size()));
        }
        for (auto* const processor : processors) {
            int type = 0;
            auto const typed = session.ask(api.processor_type, -1, processor, &type);
            if (!typed) return typed.error();
            // 2, 4 and 5 are processors and their cores.
            if (*typed && (type == 2 || type == 4 || type == 5)) continue;
            auto gpu = reader.gpu(session, processor, static_cast<int>(gpus.size()));
            if (!gpu) return gpu.error();
            gpus.push_back(*std::move(gpu));
        }
    }
    return gpus;
}

/// How two GPUs reach each other: xGMI by the kernel's topology, or by amd_smi where there is none.
///
/// Errors  backend_failure
[[nodiscard]] inline Result<DetectedLink> read_amd_link(AmdSmiSession const* session, SystemFiles const& files,
                                                        AmdGpu const& first, AmdGpu const& second) {
    DetectedLink link;
    bool is_xgmi = false;
    double bandwidth = 0.0;
    if (first.node && second.node) {
        for (auto const& way : first.node->links) {
            if (way.to != second.node->number || !way.is_xgmi) continue;
            is_xgmi = true;
            bandwidth = std::max(bandwidth, way.bandwidth);
        }
    } else if (session != nullptr) {
        // 1 is PCI Express, 2 xGMI, in all releases of this call.
        constexpr int xgmi = 2;
        std::uint64_t hops = 0;
        int type = 0;
        auto const known =
            session->ask(session->api().link_type, first.found.index, first.handle, second.handle, &hops, &type);
        if (!known) return known.error();
        is_xgmi = *known && type == xgmi;
        std::uint64_t least = 0;
        std::uint64_t most = 0;
        auto const asked =
            session->ask(session->api().link_bandwidth, first.found.index, first.handle, second.handle, &least, &most);
        if (!asked) return asked.error();
        if (*asked) bandwidth = static_cast<double>(most) * 1e6;
    }
    if (!is_xgmi) {
        link.word = pci_topology_word(files, first.found.device, second.found.device);
        auto const one = pcie_link(first.found);
        auto const other = pcie_link(second.found);
        link.link = one.bandwidth <= other.bandwidth ? one : other;
        return link;
    }
    link.word = "XGMI";
    auto const* const preset = find_device_preset_for(first.found.name, first.found.device.memory);
    bool const is_told = bandwidth > 0.0 && bandwidth < 1e13;
    bool const has_preset = preset != nullptr && preset->link.type == LinkType::infinity_fabric;
    // 50 GB/s: a link of the MI200 series, the slowest of those with xGMI between packages.
    link.link = Link{LinkType::infinity_fabric,
                     is_told      ? bandwidth
                     : has_preset ? preset->link.bandwidth
                                  : 50e9,
                     fabric_latency};
    return link;
}

/// HIP numbers GPUs as the kernel lists them; GPUs that it does not list are out of HIP's reach.
inline void sort_as_hip(std::vector<AmdGpu>& gpus, std::vector<KfdNode> const& nodes) {
    if (nodes.empty()) return;
    for (auto& gpu : gpus) {
        if (gpu.node) continue;
        gpu.found.is_available = false;
        gpu.found.reason = "the kernel's compute driver (/sys/class/kfd) does not list it, so HIP cannot use it";
    }
    detail::stable_sort(gpus.begin(), gpus.end(), [](AmdGpu const& a, AmdGpu const& b) {
        return (a.node ? a.node->number : INT64_MAX) < (b.node ? b.node->number : INT64_MAX);
    });
}

[[nodiscard]] inline Result<VendorDevices> to_amd_devices(std::vector<AmdGpu> gpus, std::vector<KfdNode> const& nodes,
                                                          AmdSmiSession const* session, SystemFiles const& files) {
    sort_as_hip(gpus, nodes);
    VendorDevices found;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        for (auto k = i + 1; k < gpus.size(); ++k) {
            auto link = read_amd_link(session, files, gpus[i], gpus[k]);
            if (!link) return link.error();
            link->first = static_cast<std::int32_t>(i);
            link->second = static_cast<std::int32_t>(k);
            found.links.push_back(*std::move(link));
        }
    }
    for (auto& gpu : gpus) found.devices.push_back(std::move(gpu.found));
    if (session != nullptr) found.warnings = session->warnings();
    return found;
}

}  // namespace detail

/// The AMD GPUs of this machine and the ways between them, in HIP's order: by libamd_smi, or where that is not
/// installed by what the kernel shows below /sys. None where there is no driver.
///
/// Errors  backend_failure with the name of the call where the library is there and broken
[[nodiscard]] inline Result<VendorDevices> read_amd_devices(std::vector<std::string> const& library_names,
                                                            SystemFiles const& files, CallWatch& watch) {
    auto const nodes = detail::read_kfd_nodes(files);
    detail::AmdReader const reader(files, nodes);
    for (auto const& name : library_names) {
        watch.begin("dlopen of AMD's management library");
        auto const library = DynamicLibrary::open(name);
        if (!library) {
            if (library.error().code() == ErrorCode::file_not_found) continue;
            return library.error();
        }
        detail::AmdSmiApi const api(*library);
        detail::AmdSmiSession session(api, watch);
        auto const is_open = session.open();
        if (!is_open) return is_open.error();
        if (!*is_open) break;
        auto gpus = detail::read_amd_smi_gpus(session, reader);
        if (!gpus) return gpus.error();
        return detail::to_amd_devices(*std::move(gpus), nodes, &session, files);
    }
    std::vector<detail::AmdGpu> gpus;
    for (auto const& node : nodes) gpus.push_back(reader.gpu(node, static_cast<int>(gpus.size())));
    return detail::to_amd_devices(std::move(gpus), nodes, nullptr, files);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
