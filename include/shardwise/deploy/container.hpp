// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/deploy/deploy_request.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A folder that the container sees: the host's, or a volume that its runtime keeps.
struct ContainerMount {
    std::string source;
    std::string target;
    bool is_read_only = false;

    /// False for a named volume.
    [[nodiscard]] bool is_host_path() const { return !source.empty() && source.front() == '/'; }
};

/// What a container runtime is told, before it is written in the words of one.
struct Container {
    std::string name;
    std::string image;
    /// Replaces the image's entry point; "" keeps it.
    std::string entrypoint;
    /// The words after it.
    std::vector<std::string> arguments;
    std::vector<EnvironmentEntry> environment;
    std::vector<ContainerMount> mounts;
    /// /dev/shm, through which ranks talk.
    Bytes shared_memory{};
    std::string host_address;
    std::int32_t host_port = 0;
    std::int32_t port = 0;
    /// Those of one node.
    std::vector<ContainerDevice> devices;
    /// Machines that each run this container.
    std::int32_t nodes = 1;
    /// Words for each of several nodes, in which LeaderWorkerSet's variables stand: $(LWS_WORKER_INDEX).
    std::vector<std::string> node_arguments;
    /// Words for all nodes but the first.
    std::vector<std::string> worker_arguments;
    bool has_cdi = false;

    [[nodiscard]] DeviceKind kind() const { return devices.empty() ? DeviceKind::cpu : devices.front().kind; }
};

/// Path that answers 200 once the engine serves; all five have the same.
inline constexpr char const* health_path = "/health";

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
