// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>

#include <array>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What docker says when it cannot start a container, and what to do about it.
struct DockerRefusal {
    /// Parts of docker's text; all of them are there. The second may be "".
    std::string_view sign;
    std::string_view second_sign;
    std::string_view reason;
    std::string_view advice;
};

/// Refusals by their text; the first row that matches counts.
///
/// Source  seen with docker 20.10.24 under clients of 20.10 and 28.2: the daemon, CDI, toolkit, device nodes, ports,
///         addresses, names, entry points, groups and registries. The others were not seen, and are from what users report
inline constexpr std::array<DockerRefusal, 23> docker_refusals{{
    {"permission denied", "docker daemon socket", "does not let this user in",
     "add the user to the group docker, or be root"},
    {"Cannot connect to the Docker daemon", "", "has no daemon that answers",
     "start it (systemctl start docker), or set DOCKER_HOST to its socket"},
    {"unresolvable CDI devices", "", "knows no such device by the container device interface",
     "describe the devices: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml; or leave --cdi out"},
    {"is not an absolute path", "", "is too old for the container device interface, which came with docker 25",
     "update docker, or leave --cdi out"},
    {"could not select device driver", "\"cdi\"",
     "is too old for the container device interface, which came with docker 25, or has it turned off",
     "update docker, or leave --cdi out"},
    {"could not select device driver", "[gpu", "has no NVIDIA container toolkit",
     "install nvidia-container-toolkit, run nvidia-ctk runtime configure --runtime=docker, and restart docker"},
    {"nvidia-container-cli", "unknown device", "finds no such NVIDIA device on this machine",
     "see shardwise detect, and name devices that are there by --devices"},
    {"nvidia-container-cli", "", "cannot reach NVIDIA's driver through its container toolkit",
     "see whether nvidia-smi works on this machine, and install or load the driver"},
    {"/dev/kfd", "", "finds no /dev/kfd: AMD's driver is not loaded on this machine",
     "load it (modprobe amdgpu), or name other devices by --devices"},
    {"/dev/dri/renderD", "", "finds no such /dev/dri node on this machine",
     "see shardwise detect, and name devices that are there by --devices"},
    {"port is already allocated", "", "cannot publish the port, which another container has",
     "stop that container, or name another port by --port"},
    {"address already in use", "", "cannot publish the port, which is in use",
     "stop what listens there, or name another port by --port"},
    {"cannot assign requested address", "", "cannot publish on --host-address, which is no address of this machine",
     "name one of this machine's, such as 127.0.0.1"},
    {"is already in use by container", "", "has a container of this name already",
     "remove it (docker rm --force and its name), or name another port by --port"},
    {"executable file not found", "", "finds no such program in the image", "name an image of the engine by --image"},
    {"Unable to find group", "", "finds no group video in the image, by which AMD's devices are opened",
     "name an image that has it by --image"},
    {"manifest unknown", "", "finds no such tag of the image", "name one that exists by --image"},
    {"no matching manifest", "", "has no image for this machine's processor", "name one that is built for it by --image"},
    {"pull access denied", "", "may not download the image, or there is none of this name",
     "log in (docker login), or name another by --image"},
    {"toomanyrequests", "", "is told by the registry to wait", "log in (docker login), or try again later"},
    {"no space left on device", "", "has no space left for the image", "free some: docker system df, docker image prune"},
    {"dial tcp", "", "does not reach the image's registry",
     "connect this machine to it, or load the image from a file: docker load"},
    {"invalid reference format", "", "does not read --image as a name", "write it like vllm/vllm-openai:v0.33.0"},
}};

namespace detail {

/// The last line that says something; docker's hints on its own help say nothing.
[[nodiscard]] constexpr std::string_view last_statement(std::string_view text) {
    std::string_view last;
    while (!text.empty()) {
        auto const end = text.find('\n');
        auto const line = text.substr(0, end);
        bool const is_hint = line.substr(0, 12) == "Run 'docker " || line.substr(0, 12) == "See 'docker ";
        if (!is_hint && line.find_first_not_of(" \t\r") != std::string_view::npos) last = line;
        if (end == std::string_view::npos) break;
        text.remove_prefix(end + 1);
    }
    for (std::string_view const start : {"docker: ", "Error response from daemon: "}) {
        if (last.substr(0, start.size()) == start) last.remove_prefix(start.size());
    }
    return last;
}

}  // namespace detail

/// The error for what docker wrote to stderr as it refused: with what to do where that is known, else its own last line.
///
/// Errors  always backend_failure
[[nodiscard]] constexpr Error docker_refusal(std::string_view text) {
    Error error{ErrorCode::backend_failure};
    error.in("docker");
    for (auto const& row : docker_refusals) {
        bool const is_there = text.find(row.sign) != std::string_view::npos &&
                              text.find(row.second_sign) != std::string_view::npos;
        if (is_there) return error.because(row.reason).fix(row.advice);
    }
    auto const last = detail::last_statement(text);
    return error.because(last.empty() ? "failed and did not say why" : last)
        .fix("run what --dry-run prints to see all that docker says");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
