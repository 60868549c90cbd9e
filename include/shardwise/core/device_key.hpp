// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/device_id.hpp>

#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A device as device maps write it: "0", "mps", "cpu", "disk".
[[nodiscard]] inline std::string device_key(DeviceId device) {
    switch (device.kind) {
        case DeviceClass::gpu:
            return std::to_string(device.index);
        case DeviceClass::mps:
            return "mps";
        case DeviceClass::cpu:
            return "cpu";
        case DeviceClass::disk:
            return "disk";
    }
    return {};
}

/// A device as sentences name it: "device 0", "mps", "cpu", "disk".
[[nodiscard]] inline std::string name_of_device(DeviceId device) {
    return (device.kind == DeviceClass::gpu ? "device " : "") + device_key(device);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
