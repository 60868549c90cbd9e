// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/calibrate/calibrate.hpp>
#include <shardwise/hardware/detection.hpp>
#include <shardwise/hardware/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The processor with what was measured of it, as one of `ranks` that share it.
[[nodiscard]] inline Device measured_processor(Device device, Calibration const& calibration, std::int32_t ranks) {
    auto const share = 1.0 / ranks;
    auto& measured = device.measured;
    for (auto const& product : calibration.products) {
        bool const is_one_row = product.rows == 1;
        auto& rates = is_one_row ? measured.one_row : measured.products;
        for (auto const& each : calibrated_formats) {
            if (each.format == product.format) {
                rates.*each.rate = (is_one_row ? product.bytes : product.operations) * share;
            }
        }
    }
    device.bandwidth = measured.bandwidth = calibration.read_all * share;
    for (auto const& each : all_rates) device.peak.*each.rate *= share;
    // A machine whose clock is unknown has at least what was measured.
    device.peak.fp32 = std::max(device.peak.fp32, measured.products.fp32);
    device.memory = Bytes{device.memory.count() / ranks};
    if (device.memory_free.count() >= 0) device.memory_free = Bytes{device.memory_free.count() / ranks};
    return device;
}

}  // namespace detail

/// This machine as a topology with measured rates, to plan with. Where it has accelerators they stay as detected and
/// the processor is `cpu`. Where it has none, the processor is as many devices as `calibration` has ranks, numbered
/// from 0, each with its share of the memory and of the rates: that is what a rank of `shardwise run` gets.
[[nodiscard]] inline Topology describe_machine(Calibration const& calibration, Detection const& detection) {
    auto topology = topology_of(detection);
    if (!topology.accelerators().empty()) {
        for (auto& device : topology.devices) {
            if (device.kind == DeviceKind::cpu) device = detail::measured_processor(device, calibration, 1);
        }
        return topology;
    }
    Topology ranks;
    for (auto const& device : topology.devices) {
        if (device.kind != DeviceKind::cpu) continue;
        for (std::int32_t rank = 0; rank < calibration.all_reduce.ranks; ++rank) {
            auto part = detail::measured_processor(device, calibration, calibration.all_reduce.ranks);
            part.id = DeviceId::gpu(rank);
            part.link = {};
            if (calibration.all_reduce.ranks > 1) {
                auto const& sums = calibration.all_reduce;
                part.link = {LinkType::memory_bus, sums.bandwidth, sums.latency, true};
            }
            ranks.devices.push_back(part);
        }
    }
    return ranks;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
