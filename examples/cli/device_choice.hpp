// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/hardware/topology.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// An accelerator of this machine.
struct OwnAccelerator {
    /// Its number in device maps.
    DeviceId id{};
    /// As its runtime calls it, "cuda:0"; a UUID or PCI address where the runtime does not show it.
    std::string word;
};

/// The devices of --devices, and the ways between them.
struct DeviceChoice {
    Topology topology;
    /// Those of this machine's accelerators that are among them, in their order; none of a SPEC or a description file.
    std::vector<OwnAccelerator> accelerators;
    std::vector<std::string> warnings;
};

/// The words of --devices between commas and plus signs, as they are.
[[nodiscard]] std::vector<std::string_view> split_devices(std::string_view text);

/// Reads the word of --devices: a SPEC; a description file; or devices of this machine, separated by commas or plus
/// signs: "auto" (all accelerators that may be used, without any the processor), "cuda:0", "hip:1", "mps", "cpu", "0",
/// UUIDs and beginnings of UUIDs that mean one device, PCI addresses; with "cpu:64GiB" and "disk" as in a SPEC.
///
/// Devices of this machine have as much memory as is free now, and keep their numbers: those by which their runtime
/// calls them.
///
/// Errors  no_such_device with the reason where one does not exist or is not available; backend_failure from a broken
///         driver; what SPEC and description file refuse
[[nodiscard]] Result<DeviceChoice> choose_devices(std::string_view word);

}  // namespace shardwise::cli
