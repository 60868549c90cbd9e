// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/text.hpp>
#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/hardware/preset.hpp>
#include <shardwise/hardware/system/system_files.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The place of a device on its PCI bus, comparable however a vendor writes it.
struct PciAddress {
    std::uint32_t domain = 0;
    std::uint32_t bus = 0;
    std::uint32_t device = 0;
    std::uint32_t function = 0;

    friend constexpr bool operator==(PciAddress const&, PciAddress const&) = default;
};

namespace detail {

/// Reads "00000000:3B:00.0", "0000:3b:00.0" or "3B:00.0".
[[nodiscard]] inline std::optional<PciAddress> parse_pci_address(std::string_view text) {
    auto parts = split_text(trimmed(text), ':');
    if (parts.size() == 2) parts.insert(parts.begin(), "0");
    if (parts.size() != 3) return std::nullopt;
    auto const dot = parts[2].find('.');
    auto const function = dot == std::string_view::npos ? std::string_view{"0"} : parts[2].substr(dot + 1);
    auto const numbers = std::array{to_integer(parts[0], 16), to_integer(parts[1], 16),
                                    to_integer(parts[2].substr(0, dot), 16), to_integer(function, 16)};
    constexpr std::array<std::int64_t, 4> limits{0xFFFFFFFF, 0xFF, 0x1F, 7};
    for (std::size_t i = 0; i < 4; ++i) {
        if (!numbers[i] || *numbers[i] < 0 || *numbers[i] > limits[i]) return std::nullopt;
    }
    auto const at = [&numbers](std::size_t i) { return static_cast<std::uint32_t>(*numbers[i]); };
    return PciAddress{at(0), at(1), at(2), at(3)};
}

/// As the kernel names it below /sys/bus/pci/devices: "0000:3b:00.0".
[[nodiscard]] inline std::string kernel_name(PciAddress const& address) {
    constexpr std::string_view digits = "0123456789abcdef";
    auto const hex = [&digits](std::uint32_t number, int least) {
        std::string text;
        for (; number > 0 || least > 0; number >>= 4U, --least) text.insert(text.begin(), digits[number & 15U]);
        return text;
    };
    return hex(address.domain, 4) + ":" + hex(address.bus, 2) + ":" + hex(address.device, 2) + "." +
           hex(address.function, 1);
}

}  // namespace detail

/// A device's NUMA node by the kernel; -1 where it does not tell.
[[nodiscard]] inline std::int32_t pci_numa_node(SystemFiles const& files, std::string_view pci) {
    auto const address = detail::parse_pci_address(pci);
    if (!address) return -1;
    auto const node = files.integer("/sys/bus/pci/devices/" + detail::kernel_name(*address) + "/numa_node");
    return node && *node >= 0 && *node <= INT32_MAX ? static_cast<std::int32_t>(*node) : -1;
}

/// The processors near to a device by the kernel, as a list; "" where it does not tell.
[[nodiscard]] inline std::string pci_near_processors(SystemFiles const& files, std::string_view pci) {
    auto const address = detail::parse_pci_address(pci);
    if (!address) return {};
    return files.word("/sys/bus/pci/devices/" + detail::kernel_name(*address) + "/local_cpulist").value_or("");
}

/// Notes the generation and the lanes of a device's PCIe connection, where the kernel tells them.
inline void read_pcie_width(SystemFiles const& files, DetectedDevice& found) {
    auto const address = detail::parse_pci_address(found.device.pci.view());
    if (!address) return;
    auto const at = "/sys/bus/pci/devices/" + detail::kernel_name(*address);
    // "32.0 GT/s PCIe"
    auto const speed = files.word(at + "/max_link_speed").value_or("");
    auto const transfers = detail::to_integer(std::string_view{speed}.substr(0, speed.find('.'))).value_or(0);
    constexpr std::array<std::int64_t, 7> generations{2, 5, 8, 16, 32, 64, 128};
    for (std::size_t i = 0; i < generations.size(); ++i) {
        if (generations[i] == transfers) found.pcie_generation = static_cast<std::int32_t>(i + 1);
    }
    auto const lanes = files.integer(at + "/max_link_width").value_or(0);
    if (lanes > 0 && lanes <= 32) found.pcie_lanes = static_cast<std::int32_t>(lanes);
}

/// The way between two devices in the words of `nvidia-smi topo -m`, from where the kernel puts them: PIX through one
/// switch at most, PXB through several, PHB through the host bridge, NODE within a NUMA node, SYS between them.
[[nodiscard]] inline std::string pci_topology_word(SystemFiles const& files, Device const& first,
                                                   Device const& second) {
    std::string_view const far = first.numa >= 0 && first.numa == second.numa ? "NODE" : "SYS";
    auto const path_of = [&files](Device const& device) {
        std::vector<std::string> path;
        auto const address = detail::parse_pci_address(device.pci.view());
        if (!address) return path;
        // ../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0
        auto const link = files.link("/sys/bus/pci/devices/" + detail::kernel_name(*address));
        for (auto const part : detail::split_text(link, '/')) {
            if (path.empty() && part.substr(0, 3) != "pci") continue;
            path.emplace_back(part);
        }
        return path;
    };
    auto const a = path_of(first);
    auto const b = path_of(second);
    std::size_t common = 0;
    while (common < a.size() && common < b.size() && a[common] == b[common]) ++common;
    if (common == 0) return std::string(far);
    if (common == 1) return "PHB";
    // Below the switch's upper port: its lower port and the device.
    return a.size() - common <= 2 && b.size() - common <= 2 ? "PIX" : "PXB";
}

/// PCIe's rate in one direction: 1 GB/s for each lane of generation 3, doubled by each later one; nothing where
/// unknown.
///
/// Source  PCI-SIG: 8, 16, 32 and 64 GT/s for each lane of generations 3 to 6
[[nodiscard]] constexpr double pcie_bandwidth(std::int32_t generation, std::int32_t lanes) {
    if (generation < 1 || generation > 8 || lanes < 1 || lanes > 32) return 0.0;
    double per_lane = 0.25e9;
    for (std::int32_t step = 1; step < generation; ++step) per_lane *= 2.0;
    return per_lane * lanes;
}
static_assert(pcie_bandwidth(4, 16) == 32e9);

/// A device's way over PCIe: by generation and lanes where they are known, else 16 lanes of generation 4.
[[nodiscard]] inline Link pcie_link(DetectedDevice const& found) {
    auto const bandwidth = pcie_bandwidth(found.pcie_generation, found.pcie_lanes);
    return bandwidth > 0.0 ? Link{LinkType::pcie, bandwidth, detail::bus_latency} : detail::pcie4;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
