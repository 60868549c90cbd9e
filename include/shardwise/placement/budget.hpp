// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/device_id.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/hardware/device.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What one device offers to a placement.
///
/// Units  compute in flop/s, bandwidth and link in bytes/s, link_latency in seconds
struct Budget {
    DeviceId id{};
    Bytes capacity{};
    /// Taken once as soon as the device holds anything: the runtime's own memory.
    Bytes overhead{};
    double compute = 0.0;
    double bandwidth = 0.0;
    double link_bandwidth = 0.0;
    double link_latency = 0.0;
    /// Which of a unit's measured times are this device's; -1: none.
    std::int32_t measured_as = -1;

    [[nodiscard]] constexpr bool is_accelerator() const { return id.is_accelerator(); }
};

/// Budgets in the order in which they are filled.
///
/// Order  accelerators as given, then cpu, then disk
using Budgets = List<Budget>;

/// How many of the budgets are accelerators; they come first.
[[nodiscard]] constexpr std::size_t count_accelerators(Budgets const& budgets) {
    std::size_t count = 0;
    while (count < budgets.size() && budgets[count].is_accelerator()) ++count;
    return count;
}

/// What a plan may use of each device as its budget (Device::usable), with `overhead` on the accelerators; rates for
/// products of `dtype`, measured ones where there are some.
[[nodiscard]] constexpr Budgets budgets_of(Span<Device const> devices, Dtype dtype = Dtype::bf16, Bytes overhead = {},
                                           double utilization = default_utilization) {
    Budgets budgets;
    budgets.reserve(devices.size());
    for (auto const& device : devices) {
        auto const compute = device.measured.products.of(dtype);
        auto const bandwidth = device.measured.bandwidth;
        budgets.push_back({device.id, device.usable(utilization), device.id.is_accelerator() ? overhead : Bytes{},
                           compute > 0.0 ? compute : device.peak.of(dtype),
                           bandwidth > 0.0 ? bandwidth : device.bandwidth, device.link.bandwidth, device.link.latency});
    }
    return budgets;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
