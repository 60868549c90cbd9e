#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/hardware/topology.hpp>
#include <shardwise/plan/stage_cost.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

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

[[nodiscard]] inline Link faster_link(Link const& a, Link const& b) {
    if (a.type == LinkType::none) return b;
    if (b.type == LinkType::none) return a;
    auto result = a.bandwidth >= b.bandwidth ? a : b;
    result.latency = a.latency < b.latency ? a.latency : b.latency;
    return result;
}

inline constexpr double PeakRates::*all_rates[] = {&PeakRates::fp32, &PeakRates::bf16, &PeakRates::fp8,
                                                   &PeakRates::int8, &PeakRates::fp16, &PeakRates::fp64,
                                                   &PeakRates::fp4};

/// A device with the better (or worse) of each rate of two.
[[nodiscard]] inline Device mixed_device(Device const& a, Device const& b, bool is_better) {
    auto mixed = a;
    auto const pick = [is_better](double x, double y) { return (x > y) == is_better ? x : y; };
    mixed.bandwidth = pick(a.bandwidth, b.bandwidth);
    for (auto const rate : all_rates) mixed.peak.*rate = pick(a.peak.*rate, b.peak.*rate);
    return mixed;
}

/// True where no rate of `a` is below that of `b`.
[[nodiscard]] inline bool is_no_worse(Device const& a, Device const& b) {
    if (a.bandwidth < b.bandwidth || a.kind != b.kind) return false;
    for (auto const rate : all_rates) {
        if (a.peak.*rate < b.peak.*rate) return false;
    }
    return true;
}

}  // namespace detail

}  // namespace shardwise::inline v0_2_0
