// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/calibrate/device_calibration.hpp>
#include <shardwise/core/observer.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/session/run_devices.hpp>

#include <vector>

namespace shardwise::cli {

/// What is measured of each of the devices, one after another; where `is_quick` with probes that fit in caches.
///
/// Errors  no_such_device where the program was built without the vendor; those of the context and of calibrate_device
[[nodiscard]] Result<std::vector<DeviceCalibration>> calibrate_devices(RunDevices const& devices, bool is_quick,
                                                                       Observer const& observer);

}  // namespace shardwise::cli
