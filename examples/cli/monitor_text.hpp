// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/monitor/monitor_summary.hpp>

#include "console.hpp"

#include <string>
#include <vector>

namespace shardwise::cli {

/// One look for people: the host, and a row for each device. What is unknown is a dash.
[[nodiscard]] std::string monitor_text(std::vector<MonitoredDevice> const& devices, MonitorSample const& sample,
                                       Style const& style);
/// What host and devices did, for people.
[[nodiscard]] std::string summary_text(std::vector<MonitoredDevice> const& devices, MonitorSummary const& summary);

/// "23 %", "-".
[[nodiscard]] std::string percent_text(std::optional<double> percent);
/// With so many digits after the point and a unit: "301.5 W"; "-".
[[nodiscard]] std::string number_text(std::optional<double> number, std::string_view unit, int digits = 0);

}  // namespace shardwise::cli
