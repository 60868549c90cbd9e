// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/vendor/nvml_reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// What one NVLink carries in one direction.
///
/// Source  half of NVIDIA's bidirectional figures, by link: P100 160 GB/s of 4, V100 300 of 6, A100 600 of 12, GA102
///         112.5 of 4, H100 900 of 18, B200 1800 of 18
[[nodiscard]] constexpr double nvlink_bandwidth(std::string_view architecture) {
    if (architecture.substr(0, 4) == "sm_6") return 20e9;
    if (architecture == "sm_86") return 14.0625e9;
    if (architecture.substr(0, 5) == "sm_10") return 50e9;
    return 25e9;
}

/// How many NVLinks go where: to each GPU directly, and to switches.
class NvlinkTable {
public:
    NvlinkTable(NvmlSession const& session, std::vector<NvmlGpu> const& gpus)
        : session_(session), gpus_(gpus), direct_(gpus.size(), std::vector<int>(gpus.size())), switched_(gpus.size()) {}

    /// Errors  backend_failure
    Result<> read() {
        for (std::size_t i = 0; i < gpus_.size(); ++i) {
            if (gpus_[i].handle == nullptr) continue;
            for (unsigned link = 0; link < max_links; ++link) {
                if (auto const known = read_link(i, link); !known) return known.error();
            }
        }
        return {};
    }

    /// The links between two GPUs: those that join them, or through switches as many as both have to them.
    [[nodiscard]] int between(std::size_t first, std::size_t second) const {
        auto const joined = std::max(direct_[first][second], direct_[second][first]);
        return joined > 0 ? joined : std::min(switched_[first], switched_[second]);
    }

private:
    // NVML_NVLINK_MAX_LINKS of the newest nvml.h; links beyond a GPU's own are invalid arguments.
    static constexpr unsigned max_links = 36;
    static constexpr unsigned remote_gpu = 0;
    static constexpr unsigned remote_switch = 2;

    Result<> read_link(std::size_t i, unsigned link) {
        auto const& api = session_.api();
        auto const& gpu = gpus_[i];
        unsigned is_active = 0;
        auto const state = session_.ask(api.nvlink_state, gpu.found.index, gpu.handle, link, &is_active);
        if (!state) return state.error();
        if (!*state || is_active != 1) return {};
        unsigned type = 0xFF;
        auto const typed = session_.ask(api.nvlink_remote_type, gpu.found.index, gpu.handle, link, &type);
        if (!typed) return typed.error();
        NvmlPciInfo remote{};
        auto const known = session_.ask(api.nvlink_remote, gpu.found.index, gpu.handle, link, &remote);
        if (!known) return known.error();
        remote.bus_id.back() = '\0';
        remote.legacy_bus_id.back() = '\0';
        auto const address =
            parse_pci_address(remote.bus_id[0] != '\0' ? remote.bus_id.data() : remote.legacy_bus_id.data());
        for (std::size_t k = 0; *known && address && k < gpus_.size(); ++k) {
            if (k == i || parse_pci_address(gpus_[k].found.device.pci.view()) != address) continue;
            ++direct_[i][k];
            return {};
        }
        // Old libraries do not tell the kind of what is there; a link that ends at no GPU ends at a switch.
        if (*typed ? type == remote_switch : *known) ++switched_[i];
        return {};
    }

    NvmlSession const& session_;
    std::vector<NvmlGpu> const& gpus_;
    std::vector<std::vector<int>> direct_;
    std::vector<int> switched_;
};

/// The word for what two GPUs have in common, by NVML where it knows, else by the kernel.
///
/// Errors  backend_failure
[[nodiscard]] inline Result<std::string> nvml_ancestor_word(NvmlSession const& session, SystemFiles const& files,
                                                            NvmlGpu const& first, NvmlGpu const& second) {
    unsigned level = 0;
    auto const known =
        session.ask(session.api().common_ancestor, first.found.index, first.handle, second.handle, &level);
    if (!known) return known.error();
    if (!*known) return pci_topology_word(files, first.found.device, second.found.device);
    // nvmlGpuTopologyLevel_t; 0 is two GPUs on one board.
    if (level <= 10) return std::string("PIX");
    if (level <= 20) return std::string("PXB");
    if (level <= 30) return std::string("PHB");
    return std::string(level <= 40 ? "NODE" : "SYS");
}

/// The links between all pairs of GPUs that could be opened.
///
/// Errors  backend_failure
[[nodiscard]] inline Result<std::vector<DetectedLink>> read_nvml_links(NvmlSession const& session,
                                                                       SystemFiles const& files,
                                                                       std::vector<NvmlGpu> const& gpus) {
    std::vector<DetectedLink> links;
    NvlinkTable table(session, gpus);
    if (auto const read = table.read(); !read) return read.error();
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        for (auto k = i + 1; k < gpus.size(); ++k) {
            if (gpus[i].handle == nullptr || gpus[k].handle == nullptr) continue;
            auto const& a = gpus[i].found;
            auto const& b = gpus[k].found;
            DetectedLink link{static_cast<std::int32_t>(i), static_cast<std::int32_t>(k), {}, {}};
            if (auto const count = table.between(i, k); count > 0) {
                auto const each = std::min(nvlink_bandwidth(a.device.architecture.view()),
                                           nvlink_bandwidth(b.device.architecture.view()));
                link.word = "NV" + std::to_string(count);
                link.link = Link{LinkType::nvlink, count * each, fabric_latency};
            } else {
                auto word = nvml_ancestor_word(session, files, gpus[i], gpus[k]);
                if (!word) return word.error();
                link.word = *std::move(word);
                auto const one = pcie_link(a);
                auto const other = pcie_link(b);
                link.link = one.bandwidth <= other.bandwidth ? one : other;
            }
            links.push_back(std::move(link));
        }
    }
    return links;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
