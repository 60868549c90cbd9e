// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/detect.hpp>
#include <shardwise/hardware/find_device.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Which of the devices that were asked about may be used.
struct Availability {
    /// One for each word, in order: whether it may be used, or why not.
    std::vector<DeviceAnswer> devices{};
    bool all_available = false;
};

/// Whether this process may use all of these devices ("cuda:0,GPU-3f2a"), and for each why not.
///
/// Errors  backend_failure: a driver is broken
[[nodiscard]] inline Result<Availability> check_available(std::string_view ids, DetectionOptions const& options = {}) {
    auto const detection = detect_devices(options);
    if (!detection) return detection.error();
    Availability out;
    out.devices = check_devices(detection->devices, ids);
    out.all_available = std::all_of(out.devices.begin(), out.devices.end(),
                                    [](DeviceAnswer const& answer) { return answer.is_available; });
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
