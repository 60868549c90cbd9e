// SPDX-License-Identifier: Apache-2.0
#include "deploy_devices.hpp"

#include <shardwise/core/text.hpp>
#include <shardwise/deploy/take_plan.hpp>
#include <shardwise/hardware/detect.hpp>

#include "deploy_choices.hpp"
#include "detect_options.hpp"
#include "device_choice.hpp"
#include "requests.hpp"

#include <cstdint>
#include <cstdlib>
#include <dirent.h>
#include <optional>
#include <utility>

namespace shardwise::cli {

namespace {

/// The number of the /dev/dri/renderD node at a PCI address like 00000000:3B:00.0; nothing where the system names none.
[[nodiscard]] std::optional<std::int32_t> render_node_of(std::string const& root, std::string_view pci) {
    auto const colon = pci.find(':');
    if (colon == std::string_view::npos || colon < 4) return std::nullopt;
    std::string address(pci.substr(colon - 4));
    for (auto& letter : address) letter = to_lower(letter);
    auto const folder = root + "/sys/bus/pci/devices/" + address + "/drm";
    DIR* const opened = ::opendir(folder.c_str());
    if (opened == nullptr) return std::nullopt;
    std::optional<std::int32_t> number;
    constexpr std::string_view start = "renderD";
    while (dirent const* const entry = ::readdir(opened)) {
        std::string_view const name = entry->d_name;
        if (name.substr(0, start.size()) == start)
            number = static_cast<std::int32_t>(std::strtol(entry->d_name + start.size(), nullptr, 10));
    }
    ::closedir(opened);
    return number;
}

[[nodiscard]] bool names_uuid(std::string_view word) {
    for (auto const& one : split_at_commas(word)) {
        if (equal_ignoring_case(one.substr(0, 4), "GPU-") || equal_ignoring_case(one.substr(0, 4), "MIG-")) return true;
    }
    return false;
}

/// Fills in the numbers by which drivers call this machine's devices.
[[nodiscard]] Result<> number_devices(DeployDevices& found, bool by_uuid) {
    auto const options = program_detection_options();
    auto const detection = detect_devices(options);
    if (!detection) return detection.error();
    for (std::size_t i = 0; i < found.devices.size(); ++i) {
        auto const& device = found.topology.devices[i];
        auto& numbered = found.devices[i];
        for (auto const& one : detection->devices) {
            bool const is_same = !device.uuid.view().empty() ? one.device.uuid == device.uuid
                                                             : one.device.pci == device.pci;
            if (!is_same) continue;
            if (one.index >= 0) numbered.index = one.index;
            if (by_uuid || one.index < 0) numbered.uuid = std::string(device.uuid.view());
        }
        if (device.kind != DeviceKind::hip) continue;
        auto const node = render_node_of(options.root, device.pci.view());
        if (node) numbered.render_node = *node;
        if (!node) {
            return Error{ErrorCode::no_such_device}
                .in("--devices")
                .at(device.name.view())
                .because("has no /dev/dri/renderD node")
                .fix("load the driver amdgpu, or name other devices");
        }
    }
    return {};
}

/// Leaves only the devices of a kind.
void keep_kind(Topology& topology, DeviceKind kind) {
    Topology kept;
    std::vector<std::int32_t> position(topology.devices.size(), -1);
    for (std::size_t i = 0; i < topology.devices.size(); ++i) {
        if (topology.devices[i].kind != kind) continue;
        position[i] = static_cast<std::int32_t>(kept.devices.size());
        kept.devices.push_back(topology.devices[i]);
    }
    for (auto const& link : topology.links) {
        auto const first = position[static_cast<std::size_t>(link.first)];
        auto const second = position[static_cast<std::size_t>(link.second)];
        if (first >= 0 && second >= 0) kept.links.push_back({first, second, link.link});
    }
    topology = std::move(kept);
}

}  // namespace

Result<DeployDevices> read_deploy_devices(Arguments const& arguments) {
    auto const word = arguments.devices.value_or("auto");
    auto choice = choose_devices(word);
    if (!choice) return choice.error();
    DeployDevices found;
    found.topology = std::move(choice->topology);
    found.warnings = std::move(choice->warnings);
    auto& topology = found.topology;
    if (arguments.prefer) {
        auto const kind = choose<DeviceKind>("--prefer", *arguments.prefer, deploy_prefer_choices);
        if (!kind) return kind.error();
        keep_kind(topology, *kind);
        if (topology.devices.empty()) {
            return Error{ErrorCode::no_such_device}
                .in("--prefer")
                .because("there is no " + std::string(name_of(*kind)) + " device among --devices")
                .fix("see shardwise detect");
        }
    }
    bool const is_description = word.find('/') != std::string::npos || word.find(".json") != std::string::npos;
    auto const accelerators = topology.accelerators();
    for (auto const& device : accelerators) {
        bool const has_address = !device.uuid.view().empty() || !device.pci.view().empty();
        found.is_own = found.is_own || (has_address && !is_description);
    }
    found.devices = container_devices(topology);
    if (found.devices.empty()) found.is_own = !is_description && topology.devices.size() > 0;
    if (!found.devices.empty() && topology.devices.size() > accelerators.size())
        found.warnings.push_back("a container's plan runs on accelerators only: cpu and disk are left out");
    if (found.is_own && !found.devices.empty()) {
        if (auto const numbered = number_devices(found, names_uuid(word)); !numbered) return numbered.error();
    }
    return found;
}

}  // namespace shardwise::cli
