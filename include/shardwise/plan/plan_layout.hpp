// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/cost/device_rates.hpp>
#include <shardwise/hardware/topology.hpp>
#include <shardwise/plan/mixed_attention.hpp>
#include <shardwise/plan/stage_cost.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How the ranks of a plan lie over the devices: one after another, tensor-parallel ranks next to each other, then
/// expert-parallel ones; outside of them either data- and then pipeline-parallel ranks, or the other way round.
struct PlanLayout {
    /// Each replica's stages lie side by side; else each stage's replicas do.
    bool is_replica_outermost = false;
    /// Devices by memory and speed, the strongest first; else in the topology's order.
    bool is_strongest_first = false;
    /// Groups of so many ranks never lie in two nodes; the devices that are left over in a node stay idle.
    std::int64_t aligned = 1;

    friend bool operator==(PlanLayout const&, PlanLayout const&) = default;
};

/// Every stage's site, and the memory of the smallest device on it.
struct PlanSites {
    List<StageSite> stages;
    List<Bytes> capacities;
    /// What `stages` point to where no device of the topology stands for all of a stage.
    List<Device> weakest;
    /// True where all stages' sites are alike but for the way to the next one.
    bool are_alike = true;
};

namespace detail {

/// A link that no collective is slower on than on either of two.
[[nodiscard]] inline Link faster_link(Link const& a, Link const& b) {
    if (a.type == LinkType::none) return b;
    if (b.type == LinkType::none) return a;
    auto result = a.bandwidth >= b.bandwidth ? a : b;
    result.latency = a.latency < b.latency ? a.latency : b.latency;
    result.is_measured = a.is_measured || b.is_measured;
    // On a memory bus a sum takes fewer messages, but may take more bytes: without latency the fewest bytes bind.
    if ((a.type == LinkType::memory_bus) != (b.type == LinkType::memory_bus)) {
        result.type = a.type == LinkType::memory_bus ? b.type : a.type;
        result.latency = 0.0;
    }
    return result;
}

/// The device with every rate that a plan prices by as a measured one, so that it compares with a measured device.
[[nodiscard]] inline Device as_measured(Device device) {
    auto measured = device.measured;
    for (auto const& [dtype, rate] : all_rates) {
        auto const rates = device_rates(device, dtype);
        measured.products.*rate = rates.products;
        measured.one_row.*rate = rates.memory;
    }
    measured.launch = device_rates(device, Dtype::bf16).kernel_seconds;
    device.measured = measured;
    return device;
}

[[nodiscard]] inline bool is_measured(Device const& device) {
    return device.measured != MeasuredRates{};
}

/// A device with the better (or worse) of each rate of two.
[[nodiscard]] inline Device mixed_device(Device const& a, Device const& b, bool is_better) {
    auto mixed = a;
    auto const pick = [is_better](double x, double y) { return (x > y) == is_better ? x : y; };
    mixed.bandwidth = pick(a.bandwidth, b.bandwidth);
    for (auto const& each : all_rates) {
        auto const one = a.peak.*each.rate;
        auto const other = b.peak.*each.rate;
        mixed.peak.*each.rate = pick(one, other);
        // A rate that is not given is another type's, which may be the better one.
        if (is_better && one != other) mixed.peak.*each.rate = pick(a.peak.of(each.dtype), b.peak.of(each.dtype));
    }
    // A cpu has no launches.
    bool const is_cpu = a.kind == DeviceKind::cpu;
    if (is_cpu != (b.kind == DeviceKind::cpu)) mixed.kind = is_cpu == is_better ? a.kind : b.kind;
    if (!is_measured(a) && !is_measured(b)) return mixed;
    auto const one = as_measured(a).measured;
    auto const other = as_measured(b).measured;
    for (auto const& each : all_rates) {
        mixed.measured.products.*each.rate = pick(one.products.*each.rate, other.products.*each.rate);
        mixed.measured.one_row.*each.rate = pick(one.one_row.*each.rate, other.one_row.*each.rate);
    }
    mixed.measured.attention = mixed_attention(a, b, is_better);
    mixed.measured.launch = (one.launch < other.launch) == is_better ? one.launch : other.launch;
    return mixed;
}

/// True where no rate of `a` is below that of `b`.
[[nodiscard]] inline bool is_no_worse(Device const& a, Device const& b) {
    if (a.bandwidth < b.bandwidth || a.kind != b.kind) return false;
    for (auto const& each : all_rates) {
        if (a.peak.*each.rate < b.peak.*each.rate) return false;
    }
    if (!is_measured(a) && !is_measured(b)) return true;
    auto const one = as_measured(a).measured;
    auto const other = as_measured(b).measured;
    for (auto const& each : all_rates) {
        if (one.products.*each.rate < other.products.*each.rate) return false;
        if (one.one_row.*each.rate < other.one_row.*each.rate) return false;
    }
    return one.launch <= other.launch && attends_no_worse(a, b);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
