// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/hardware/preset_rates.hpp>
#include <shardwise/hardware/vendor/amd_names.hpp>
#include <shardwise/hardware/vendor/amd_smi_api.hpp>
#include <shardwise/hardware/vendor/kfd_topology.hpp>
#include <shardwise/hardware/vendor/pci_path.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// An AMD GPU with what else names it.
struct AmdGpu {
    DetectedDevice found;
    AmdHandle handle = nullptr;
    /// Its node in the KFD topology.
    std::optional<KfdNode> node;
};

/// What amd_smi and the kernel say of a GPU becomes a device.
class AmdReader {
public:
    AmdReader(SystemFiles const& files, std::vector<KfdNode> const& nodes) : files_(files), nodes_(nodes) {}

    /// The GPU of a handle of amd_smi's.
    ///
    /// Errors  backend_failure
    [[nodiscard]] Result<AmdGpu> gpu(AmdSmiSession const& session, AmdHandle handle, int index) const {
        AmdGpu gpu;
        gpu.handle = handle;
        gpu.found.index = index;
        auto const& api = session.api();
        std::uint64_t bits = 0;
        if (auto const got = session.require(api.bdf, index, handle, &bits); !got) return got.error();
        // function : 3, device : 5, bus : 8, domain : 48
        PciAddress const address{static_cast<std::uint32_t>(bits >> 16U),
                                 static_cast<std::uint32_t>(bits >> 8U & 0xFFU),
                                 static_cast<std::uint32_t>(bits >> 3U & 0x1FU), static_cast<std::uint32_t>(bits & 7U)};
        locate(gpu, address);
        if (auto const read = memory(session, gpu); !read) return read.error();
        AsicInfo info{};
        auto const told = session.ask(api.asic_info, index, handle, static_cast<void*>(info.data()));
        if (!told) return told.error();
        if (*told) read_asic_info(gpu.found, info);
        if (gpu.found.device.numa < 0) {
            std::uint32_t numa = 0;
            auto const asked = session.ask(api.numa_node, index, handle, &numa);
            if (!asked) return asked.error();
            if (*asked && numa < 65536) gpu.found.device.numa = static_cast<std::int32_t>(numa);
        }
        complete(gpu);
        if (gpu.found.device.uuid.empty()) {
            std::array<char, 64> text{};
            unsigned length = text.size() - 1;
            auto const asked = session.ask(api.uuid, index, handle, &length, text.data());
            if (!asked) return asked.error();
            text.back() = '\0';
            if (*asked) gpu.found.device.uuid.assign(text.data());
        }
        return gpu;
    }

    /// The GPU of a node, by the kernel alone.
    [[nodiscard]] AmdGpu gpu(KfdNode const& node, int index) const {
        AmdGpu gpu;
        gpu.found.index = index;
        locate(gpu, node.address);
        auto const memory = [&](std::string const& file) -> std::optional<std::int64_t> {
            auto const by_bus = files_.integer("/sys/bus/pci/devices/" + kernel_name(node.address) + "/" + file);
            if (by_bus || node.render_minor < 0) return by_bus;
            return files_.integer("/sys/class/drm/renderD" + std::to_string(node.render_minor) + "/device/" + file);
        };
        auto const total = memory("mem_info_vram_total").value_or(0);
        auto const used = memory("mem_info_vram_used");
        gpu.found.device.memory = Bytes{total < 0 ? 0 : total};
        if (used && *used >= 0) gpu.found.device.memory_free = Bytes{*used < total ? total - *used : 0};
        complete(gpu);
        return gpu;
    }

private:
    /// More than amdsmi_asic_info_t has in any release.
    using AsicInfo = std::array<unsigned char, 4096>;

    void locate(AmdGpu& gpu, PciAddress const& address) const {
        gpu.found.device.kind = DeviceKind::hip;
        gpu.found.device.pci.assign(kernel_name(address));
        gpu.found.device.numa = pci_numa_node(files_, gpu.found.device.pci.view());
        read_pcie_width(files_, gpu.found);
        gpu.found.near_processors = pci_near_processors(files_, gpu.found.device.pci.view());
        for (auto const& node : nodes_) {
            if (node.address == address) gpu.node = node;
        }
    }

    /// Total and free memory in bytes.
    static Result<> memory(AmdSmiSession const& session, AmdGpu& gpu) {
        auto const& api = session.api();
        auto& found = gpu.found;
        std::uint64_t total = 0;
        std::uint64_t used = 0;
        bool is_used_known = false;
        if (!api.memory_total && api.vram_usage) {
            std::array<std::uint32_t, 64> usage{};
            auto const got = session.require(api.vram_usage, found.index, gpu.handle, static_cast<void*>(usage.data()));
            if (!got) return got.error();
            total = std::uint64_t{usage[0]} << 20U;
            used = std::uint64_t{usage[1]} << 20U;
            is_used_known = true;
        } else {
            constexpr int vram = 0;
            auto const got = session.require(api.memory_total, found.index, gpu.handle, vram, &total);
            if (!got) return got.error();
            auto const known = session.ask(api.memory_used, found.index, gpu.handle, vram, &used);
            if (!known) return known.error();
            is_used_known = *known;
        }
        if (total > static_cast<std::uint64_t>(INT64_MAX)) {
            return Error{ErrorCode::backend_failure}.in(api.memory_total.name).because("tells an impossible size");
        }
        found.device.memory = Bytes{static_cast<std::int64_t>(total)};
        if (is_used_known) found.device.memory_free = Bytes{used < total ? static_cast<std::int64_t>(total - used) : 0};
        return {};
    }

    static std::string text_at(AsicInfo const& info, std::size_t offset, std::size_t size) {
        std::string_view const all(reinterpret_cast<char const*>(info.data()) + offset, size);
        return std::string(trimmed(all.substr(0, all.find('\0'))));
    }

    /// The name stands first; the serial number, which is the UUID, after texts of 64 or 256 bytes, by the release.
    /// The vendor's PCI number between them tells which.
    static void read_asic_info(DetectedDevice& found, AsicInfo const& info) {
        constexpr std::uint32_t amd = 0x1002;
        std::uint32_t vendor = 0;
        std::memcpy(&vendor, info.data() + 64, sizeof vendor);
        bool const has_short_name = vendor == amd;
        found.name = text_at(info, 0, has_short_name ? 64 : 256);
        struct Place {
            std::size_t offset, size;
        };
        // market_name, vendor_id, vendor_name, subvendor_id, device_id (aligned to 8), rev_id, asic_serial
        for (auto const place : has_short_name ? std::array<Place, 2>{{{148, 32}, {148, 32}}}
                                               : std::array<Place, 2>{{{340, 32}, {532, 256}}}) {
            auto serial = text_at(info, place.offset, place.size);
            if (serial.substr(0, 2) == "0x" || serial.substr(0, 2) == "0X") serial.erase(0, 2);
            bool const is_hexadecimal = serial.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
            if (serial.empty() || serial.size() > 16 || !is_hexadecimal) continue;
            for (auto& letter : serial)
                letter = letter >= 'A' && letter <= 'F' ? static_cast<char>(letter - 'A' + 'a') : letter;
            found.device.uuid.assign("GPU-" + std::string(16 - serial.size(), '0') + serial);
            return;
        }
    }

    /// What the node adds: the architecture, the UUID, a name where the driver has none, rates.
    void complete(AmdGpu& gpu) const {
        auto& found = gpu.found;
        if (gpu.node) {
            found.device.architecture.assign(gpu.node->architecture);
            if (!gpu.node->unique_id.empty()) found.device.uuid.assign("GPU-" + gpu.node->unique_id);
            found.clock = gpu.node->clock;
        }
        if (found.name.empty()) {
            auto const product =
                files_.word("/sys/bus/pci/devices/" + std::string(found.device.pci.view()) + "/product_name");
            found.name = product && !product->empty() ? *product : amd_name(gpu.node ? gpu.node->device_id : 0);
        }
        found.device.name.assign(found.name);
        if (take_preset_rates(found) || !gpu.node) return;
        // 64 lanes with a fused multiply-add each.
        found.device.peak.fp32 = 128.0 * static_cast<double>(gpu.node->compute_units) * gpu.node->clock;
    }

    SystemFiles const& files_;
    std::vector<KfdNode> const& nodes_;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
