// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/calibrate/calibrate.hpp>
#include <shardwise/calibrate/device_calibration.hpp>
#include <shardwise/hardware/topology.hpp>

#include "console.hpp"

#include <string>
#include <vector>

namespace shardwise::cli {

/// What `calibrate` measured.
struct CalibrateAnswer {
    std::string out;
    std::string processor;
    Calibration calibration;
    /// Of the devices that were asked for.
    std::vector<DeviceCalibration> devices;
    /// Over ranks on them.
    List<AllReduceTime> sums;
    /// As it was written.
    Topology machine;
    std::vector<std::string> warnings;
};

[[nodiscard]] std::string calibrate_json(CalibrateAnswer const& answer);
[[nodiscard]] std::string calibrate_text(CalibrateAnswer const& answer, Style const& style);

}  // namespace shardwise::cli
