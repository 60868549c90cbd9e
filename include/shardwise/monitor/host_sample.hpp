// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/monitor/device_sample.hpp>

#include <optional>
#include <type_traits>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What one look at the host tells; what its kernel does not tell is empty.
struct HostSample {
    /// All its processors since the look before.
    ///
    /// Units  percent
    std::optional<double> cpu{};
    /// The busiest one.
    std::optional<double> busiest_core{};
    /// Within the control groups of this process.
    std::optional<Bytes> memory_used{};
    std::optional<Bytes> memory_total{};
    /// The share of the last ten seconds in which some task waited for the resource (Linux' pressure stall information).
    ///
    /// Units  percent
    std::optional<double> cpu_pressure{};
    std::optional<double> memory_pressure{};
    std::optional<double> io_pressure{};
    /// Of all processor packages since the first look (RAPL).
    ///
    /// Units  joules
    std::optional<double> energy{};

    /// Units  percent
    [[nodiscard]] std::optional<double> memory_percent() const {
        if (!memory_used || !memory_total || memory_total->count() <= 0) return std::nullopt;
        return 100.0 * static_cast<double>(memory_used->count()) / static_cast<double>(memory_total->count());
    }
};
static_assert(std::is_trivially_copyable_v<HostSample>);

/// One look at everything.
struct MonitorSample {
    /// Since 1970 (UTC).
    ///
    /// Units  seconds, as those of `elapsed`
    double time = 0.0;
    /// Since watching began, by a clock that nobody sets.
    double elapsed = 0.0;
    HostSample host{};
    /// In the order of the monitor's devices.
    std::vector<DeviceSample> devices{};
    /// Each processor that is online, in the kernel's order; empty at the first look.
    ///
    /// Units  percent
    std::vector<float> cores{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
