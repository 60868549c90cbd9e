// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/calibrate/device_calibration.hpp>
#include <shardwise/core/observer.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/hardware/all_reduce_time.hpp>
#include <shardwise/session/run_devices.hpp>

#include <string>
#include <vector>

namespace shardwise::cli {

/// What was measured of devices.
struct CalibratedDevices {
    std::vector<DeviceCalibration> devices;
    /// Over ranks on them.
    List<AllReduceTime> all_reduce;
    /// Why some sums were not measured.
    std::vector<std::string> warnings;
};

/// What is measured of each of the devices, one after another, and of sums over 2, 4 and 8 ranks and as many as there are devices; where
/// `is_quick` with probes of 32 MiB, which caches may hold, and attention without the sequences that are longer. Ranks share one device
/// where it is the only one.
///
/// Errors  no_such_device where the program was built without the vendor; those of the context and of calibrate_device
[[nodiscard]] Result<CalibratedDevices> calibrate_devices(RunDevices const& devices, bool is_quick,
                                                          Observer const& observer);

}  // namespace shardwise::cli
