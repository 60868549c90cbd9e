// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/hardware/presets.hpp>

#include <string_view>
#include <vector>

namespace shardwise::testing {

/// A device as detection gives it, with the rates of a preset.
inline DetectedDevice found_device(std::string_view id, std::string_view preset, Bytes free, std::int32_t number) {
    DetectedDevice found;
    found.device = *find_device_preset(preset);
    found.device.id = DeviceId::gpu(number);
    found.device.memory_free = free;
    found.id = id;
    found.name = preset;
    return found;
}

/// The processor with so much memory.
inline DetectedDevice found_processor(Bytes memory, Bytes free) {
    DetectedDevice found;
    found.device.kind = DeviceKind::cpu;
    found.device.id = DeviceId::cpu();
    found.device.memory = memory;
    found.device.memory_free = free;
    found.id = "cpu";
    found.name = "a processor";
    return found;
}

/// Two visible NVIDIA GPUs, a hidden one, an AMD one, and the processor.
inline std::vector<DetectedDevice> mixed_machine() {
    std::vector<DetectedDevice> devices{found_device("cuda:0", "RTX4090", 20_GiB, 0),
                                        found_device("cuda:1", "L4", 22_GiB, 1),
                                        found_device("GPU-3fa90000-0000-0000-0000-000000000000", "T4", 15_GiB, 3),
                                        found_device("hip:0", "MI300X", 180_GiB, 2), found_processor(64_GiB, 40_GiB)};
    devices[0].device.uuid = "GPU-3f2a0000-0000-0000-0000-000000000000";
    devices[0].device.pci = "00000000:3B:00.0";
    devices[1].device.uuid = "GPU-91110000-0000-0000-0000-000000000000";
    devices[1].device.pci = "00000000:AF:00.0";
    devices[2].device.uuid = "GPU-3fa90000-0000-0000-0000-000000000000";
    devices[2].is_available = false;
    devices[2].reason = "is hidden by CUDA_VISIBLE_DEVICES";
    return devices;
}

}  // namespace shardwise::testing
