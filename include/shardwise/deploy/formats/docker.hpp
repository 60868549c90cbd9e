// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/container.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// How runtimes are asked for a device: by its UUID where that is known, else by its number.
[[nodiscard]] inline std::string device_word(ContainerDevice const& device) {
    return device.uuid.empty() ? std::to_string(device.index) : device.uuid;
}

/// "device=GPU-..." for one, "\"device=1,3\"" for several: docker reads the value as a line of CSV.
[[nodiscard]] inline std::string gpus_word(std::vector<ContainerDevice> const& devices) {
    std::string list;
    for (auto const& device : devices) list += (list.empty() ? "" : ",") + device_word(device);
    return devices.size() == 1 ? "device=" + list : "\"device=" + list + "\"";
}

/// "16g": whole GiB.
[[nodiscard]] inline std::string gib_word(Bytes bytes, std::string_view unit) {
    return std::to_string(bytes.count() >> 30) + std::string(unit);
}

/// "127.0.0.1:8000:80"; an address of IPv6 stands in brackets.
[[nodiscard]] inline std::string published(Container const& container) {
    bool const is_v6 = container.host_address.find(':') != std::string::npos;
    auto const address = is_v6 ? "[" + container.host_address + "]" : container.host_address;
    return address + ":" + std::to_string(container.host_port) + ":" + std::to_string(container.port);
}

/// The words of `docker run` with `first` flags; a flag and its value are two words.
[[nodiscard]] inline std::vector<std::string> docker_words(Container const& container, std::vector<std::string> const& first) {
    std::vector<std::string> words{"docker", "run"};
    words.insert(words.end(), first.begin(), first.end());
    words.insert(words.end(), {"--name", container.name});
    auto const add = [&words](std::string_view flag, std::string value) {
        words.emplace_back(flag);
        words.push_back(static_cast<std::string&&>(value));
    };
    bool const is_amd = container.kind() == DeviceKind::hip;
    if (container.has_cdi) {
        std::string const vendor = is_amd ? "amd.com/gpu=" : "nvidia.com/gpu=";
        for (auto const& device : container.devices) add("--device", vendor + detail::device_word(device));
    } else if (is_amd) {
        add("--device", "/dev/kfd");
        for (auto const& device : container.devices)
            add("--device", "/dev/dri/renderD" + std::to_string(device.render_node));
        add("--security-opt", "seccomp=unconfined");
        add("--group-add", "video");
    } else if (!container.devices.empty()) {
        add("--gpus", detail::gpus_word(container.devices));
    }
    add("--shm-size", detail::gib_word(container.shared_memory, "g"));
    add("--publish", detail::published(container));
    for (auto const& mount : container.mounts)
        add("--volume", mount.source + ":" + mount.target + (mount.is_read_only ? ":ro" : ""));
    for (auto const& entry : container.environment)
        add("--env", entry.value ? entry.name + "=" + *entry.value : entry.name);
    if (!container.entrypoint.empty()) add("--entrypoint", container.entrypoint);
    words.push_back(container.image);
    words.insert(words.end(), container.arguments.begin(), container.arguments.end());
    return words;
}

}  // namespace detail

/// The words of `docker run` for a container, a flag and its value as two: in the foreground, and gone when it ends.
///
/// Source  run with docker 20.10 (ports, volumes, variables, names, entry points); --gpus and AMD's nodes were refused there
///         for want of devices; --device with a CDI name needs docker 25
[[nodiscard]] inline std::vector<std::string> docker_command(Container const& container) {
    return detail::docker_words(container, {"--rm"});
}

/// The same in the background: what it has said and how it ended are kept, and `label` (key=value) finds it again.
[[nodiscard]] inline std::vector<std::string> docker_start_command(Container const& container, std::string const& label) {
    return detail::docker_words(container, {"--detach", "--label", label});
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
