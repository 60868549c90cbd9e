// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/system/system_files.hpp>
#include <shardwise/hardware/vendor/pci_path.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A way from one node of the KFD topology to another.
struct KfdLink {
    std::int64_t to = -1;
    bool is_xgmi = false;
    /// Units  bytes per second in one direction; 0 where the kernel does not tell
    double bandwidth = 0.0;
};

/// A GPU as the kernel's compute driver lists it: HIP numbers GPUs in this order.
struct KfdNode {
    std::int64_t number = 0;
    PciAddress address{};
    /// "gfx942"
    std::string architecture;
    /// 16 hexadecimal digits; "" for GPUs without one.
    std::string unique_id;
    std::int64_t device_id = 0;
    std::int64_t render_minor = -1;
    std::int64_t compute_units = 0;
    double clock = 0.0;
    std::vector<KfdLink> links;
};

/// Rows "key value".
class KfdProperties {
public:
    explicit KfdProperties(std::string text) : text_(std::move(text)) {}

    [[nodiscard]] std::string_view word(std::string_view key) const {
        for (auto const line : split_text(text_, '\n')) {
            if (line.size() > key.size() && line.substr(0, key.size()) == key && line[key.size()] == ' ') {
                return trimmed(line.substr(key.size()));
            }
        }
        return {};
    }
    [[nodiscard]] std::int64_t integer(std::string_view key) const { return to_integer(word(key)).value_or(0); }

private:
    std::string text_;
};

/// gfx_target_version 90402 is "gfx942", 90010 "gfx90a".
[[nodiscard]] inline std::string gfx_name(std::int64_t version) {
    if (version <= 0 || version > 999999) return {};
    constexpr std::string_view digits = "0123456789abcdef";
    auto const minor = static_cast<std::size_t>(version / 100 % 100);
    auto const step = static_cast<std::size_t>(version % 100);
    if (minor > 15 || step > 15) return {};
    return "gfx" + std::to_string(version / 10000) + digits[minor] + digits[step];
}

/// unique_id is a decimal number of up to 64 bits.
[[nodiscard]] inline std::string hexadecimal_id(std::string_view decimal) {
    std::uint64_t number = 0;
    auto const read = std::from_chars(decimal.data(), decimal.data() + decimal.size(), number);
    if (read.ec != std::errc{} || read.ptr != decimal.data() + decimal.size() || number == 0) return {};
    std::string text(16, '0');
    for (std::size_t i = 16; i-- > 0; number >>= 4U) text[i] = "0123456789abcdef"[number & 15U];
    return text;
}

/// The GPUs of /sys/class/kfd; those of other containers cannot be read and are left out.
///
/// Source  Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c
[[nodiscard]] inline std::vector<KfdNode> read_kfd_nodes(SystemFiles const& files) {
    std::vector<KfdNode> nodes;
    std::string const folder = "/sys/class/kfd/kfd/topology/nodes";
    for (auto const number : files.numbered(folder, "")) {
        auto const at = folder + "/" + std::to_string(number);
        // Processors have the id 0.
        if (files.integer(at + "/gpu_id").value_or(0) == 0) continue;
        auto text = files.text(at + "/properties");
        if (!text) continue;
        KfdProperties const properties(*std::move(text));
        KfdNode node;
        node.number = number;
        auto const location = static_cast<std::uint32_t>(properties.integer("location_id"));
        node.address = {static_cast<std::uint32_t>(properties.integer("domain")), location >> 8U & 0xFFU,
                        location >> 3U & 0x1FU, location & 7U};
        node.architecture = gfx_name(properties.integer("gfx_target_version"));
        node.unique_id = hexadecimal_id(properties.word("unique_id"));
        node.device_id = properties.integer("device_id");
        node.render_minor = properties.integer("drm_render_minor");
        auto const each = properties.integer("simd_per_cu");
        node.compute_units = each > 0 ? properties.integer("simd_count") / each : 0;
        node.clock = static_cast<double>(properties.integer("max_engine_clk_fcompute")) * 1e6;
        for (std::string const kind : {"/io_links", "/p2p_links"}) {
            for (auto const link : files.numbered(at + kind, "")) {
                auto link_text = files.text(at + kind + "/" + std::to_string(link) + "/properties");
                if (!link_text) continue;
                KfdProperties const row(*std::move(link_text));
                // CRAT: 2 is PCI Express, 11 xGMI. Bandwidth in MB/s.
                constexpr std::int64_t xgmi = 11;
                node.links.push_back({row.integer("node_to"), row.integer("type") == xgmi,
                                      static_cast<double>(row.integer("max_bandwidth")) * 1e6});
            }
        }
        nodes.push_back(std::move(node));
    }
    return nodes;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
