// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/device.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A device that was found on this machine, and whether this process may use it.
struct DetectedDevice {
    /// As a value to plan with. Its `id` is the number that device maps give it.
    Device device{};
    /// How to ask for it: "cuda:0" by the number that its runtime gives it in this process, "cpu", "mps"; for a device
    /// that the runtime does not show, its UUID or PCI address.
    std::string id;
    /// The vendor's full name; `device.name` may be cut.
    std::string name;
    /// The preset whose rates it has; "" where none matches.
    std::string preset;
    /// The driver's own number: nvidia-smi's, amd-smi's; -1 where it has none.
    std::int32_t index = -1;
    bool is_available = true;
    /// Why it is not available, else "".
    std::string reason;
    /// The UUID of the GPU that this is an instance of (MIG), else "".
    std::string parent;
    /// GPU and compute instance of a MIG device; -1 for others.
    std::int32_t gpu_instance = -1;
    std::int32_t compute_instance = -1;
    /// The GPU is split into instances, and only they compute.
    bool is_split = false;
    /// The most that slot and device agree on; 0 where unknown.
    std::int32_t pcie_generation = 0;
    std::int32_t pcie_lanes = 0;
    /// The processors near to it, as a kernel list ("0-31"); "" where unknown.
    std::string near_processors;
    /// Units  hertz; 0 where unknown
    double clock = 0.0;
};

/// How two devices of one machine reach each other.
struct DetectedLink {
    /// Positions in the list of detected devices.
    std::int32_t first = 0;
    std::int32_t second = 0;
    /// In the words of `nvidia-smi topo -m`: "NV12", "PIX", "PXB", "PHB", "NODE", "SYS"; "XGMI" between AMD's.
    std::string word;
    Link link{};
};

/// What one vendor's driver tells.
struct VendorDevices {
    std::vector<DetectedDevice> devices;
    std::vector<DetectedLink> links;
    std::vector<std::string> warnings;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
