// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/container.hpp>
#include <shardwise/deploy/formats/docker.hpp>
#include <shardwise/deploy/formats/yaml_text.hpp>

#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A value of compose, which replaces what follows a dollar sign unless that is doubled.
[[nodiscard]] inline std::string compose_value(std::string_view text) {
    return yaml_text(doubled(text, '$'));
}

/// The devices of a service: a reservation, CDI names, or AMD's nodes.
[[nodiscard]] inline std::string compose_devices(Container const& container) {
    if (container.devices.empty()) return {};
    bool const is_amd = container.kind() == DeviceKind::hip;
    if (is_amd && !container.has_cdi) {
        std::string text = "    devices:\n      - \"/dev/kfd\"\n";
        for (auto const& device : container.devices)
            text += "      - \"/dev/dri/renderD" + std::to_string(device.render_node) + "\"\n";
        return text + "    security_opt:\n      - \"seccomp=unconfined\"\n    group_add:\n      - \"video\"\n";
    }
    std::string const driver = container.has_cdi ? "cdi" : "nvidia";
    std::string text =
        "    deploy:\n      resources:\n        reservations:\n          devices:\n            - driver: " + driver +
        "\n              device_ids:\n";
    std::string const vendor = !container.has_cdi ? "" : is_amd ? "amd.com/gpu=" : "nvidia.com/gpu=";
    for (auto const& device : container.devices)
        text += "                - " + compose_value(vendor + device_word(device)) + "\n";
    if (!container.has_cdi) return text + "              capabilities: [gpu]\n";
    return text + "              capabilities: []\n";
}

/// The service's volumes, and those that compose keeps.
[[nodiscard]] inline std::string compose_volumes(Container const& container) {
    if (container.mounts.empty()) return {};
    std::string text = "    volumes:\n";
    for (auto const& mount : container.mounts) {
        text += "      - type: " + std::string(mount.is_host_path() ? "bind" : "volume") +
                "\n        source: " + compose_value(mount.source) + "\n        target: " + compose_value(mount.target) +
                "\n";
        if (mount.is_read_only) text += "        read_only: true\n";
    }
    return text;
}

}  // namespace detail

/// A compose file with one service. Its health is asked for inside the container, by the python3 or curl that the image has.
///
/// Source  compose-spec: services, deploy resources, healthcheck
[[nodiscard]] inline std::string compose_text(Container const& container) {
    using detail::compose_value;
    std::string text = "services:\n  " + container.name + ":\n    image: " + compose_value(container.image) + "\n";
    if (!container.entrypoint.empty()) text += "    entrypoint: [" + compose_value(container.entrypoint) + "]\n";
    text += "    command:\n";
    for (auto const& word : container.arguments) text += "      - " + compose_value(word) + "\n";
    text += "    ports:\n      - " + compose_value(detail::published(container)) + "\n";
    text += "    shm_size: " + detail::gib_word(container.shared_memory, "gb") + "\n";
    if (!container.environment.empty()) {
        text += "    environment:\n";
        for (auto const& entry : container.environment)
            text += "      - " + compose_value(entry.value ? entry.name + "=" + *entry.value : entry.name) + "\n";
    }
    text += detail::compose_volumes(container);
    text += detail::compose_devices(container);
    auto const address = "http://127.0.0.1:" + std::to_string(container.port) + health_path;
    text += "    healthcheck:\n      test:\n        - \"CMD-SHELL\"\n        - " +
            compose_value("curl -fsS " + address + " || python3 -c 'import urllib.request as u; u.urlopen(\"" + address +
                          "\")'") +
            "\n      interval: 10s\n      timeout: 5s\n      retries: 3\n      start_period: 30m\n";
    bool has_volumes = false;
    for (auto const& mount : container.mounts) {
        if (mount.is_host_path()) continue;
        if (!has_volumes) text += "volumes:\n";
        has_volumes = true;
        text += "  " + mount.source + ": {}\n";
    }
    return text;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
