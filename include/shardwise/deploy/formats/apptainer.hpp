// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/container.hpp>
#include <shardwise/deploy/formats/docker.hpp>

#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The words of `apptainer` for a container. Apptainer shows all devices and the host's network: the devices are chosen by
/// the variables of their vendor's runtime. It passes the environment on, so that a name needs nothing more; values go
/// by APPTAINERENV_, because --env splits at commas. Volumes have no counterpart: the home folder is the host's.
///
/// Never run; to be held to: Apptainer 1.4, user guide: environment and metadata, GPU support
[[nodiscard]] inline std::vector<std::string> apptainer_command(Container const& container) {
    bool const is_amd = container.kind() == DeviceKind::hip;
    std::vector<std::string> words{"env"};
    if (!container.devices.empty()) {
        std::string list;
        for (auto const& device : container.devices) list += (list.empty() ? "" : ",") + detail::device_word(device);
        if (!is_amd) words.emplace_back("APPTAINERENV_CUDA_DEVICE_ORDER=PCI_BUS_ID");
        words.push_back((is_amd ? "APPTAINERENV_ROCR_VISIBLE_DEVICES=" : "APPTAINERENV_CUDA_VISIBLE_DEVICES=") + list);
    }
    for (auto const& entry : container.environment) {
        if (entry.value) words.push_back("APPTAINERENV_" + entry.name + "=" + *entry.value);
    }
    if (words.size() == 1) words.clear();
    words.emplace_back("apptainer");
    words.emplace_back(container.entrypoint.empty() ? "run" : "exec");
    if (!container.devices.empty()) words.emplace_back(is_amd ? "--rocm" : "--nv");
    for (auto const& mount : container.mounts) {
        if (!mount.is_host_path()) continue;
        words.emplace_back("--bind");
        words.push_back(mount.source + ":" + mount.target + (mount.is_read_only ? ":ro" : ""));
    }
    words.push_back("docker://" + container.image);
    if (!container.entrypoint.empty()) words.push_back(container.entrypoint);
    words.insert(words.end(), container.arguments.begin(), container.arguments.end());
    return words;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
