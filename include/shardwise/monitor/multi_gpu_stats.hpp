// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/monitor/device_monitor.hpp>
#include <shardwise/monitor/monitor_summary.hpp>

#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What these devices ("cuda:0,cuda:1"; "" all that may be used) do at this moment, and their totals. To watch them for
/// longer: Sampler.
///
/// Errors  no_such_device, backend_failure
[[nodiscard]] inline Result<MonitorSummary> multi_gpu_stats(std::string ids, DetectionOptions const& detection = {}) {
    auto monitor = DeviceMonitor::open({std::move(ids), detection});
    if (!monitor) return monitor.error();
    MonitorSample sample;
    monitor->read(sample);
    SummaryBuilder builder(monitor->devices().size());
    builder.add(sample);
    return builder.summary();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
