// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/deploy/deploy_request.hpp>
#include <shardwise/hardware/topology.hpp>

#include "arguments.hpp"

#include <string>
#include <vector>

namespace shardwise::cli {

/// The devices that a container gets.
struct DeployDevices {
    /// The accelerators, or the processor alone.
    Topology topology;
    /// One for each accelerator.
    std::vector<ContainerDevice> devices;
    /// They are this machine's, so that what is free counts.
    bool is_own = false;
    std::vector<std::string> warnings;
};

/// Reads --devices and --prefer; without --devices, all of this machine that may be used.
///
/// Errors  as choose_devices
[[nodiscard]] Result<DeployDevices> read_deploy_devices(Arguments const& arguments);

}  // namespace shardwise::cli
