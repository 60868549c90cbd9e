// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/calibrate/calibrate.hpp>
#include <shardwise/calibrate/calibrated_formats.hpp>
#include <shardwise/calibrate/device_calibration.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/hardware/detection.hpp>
#include <shardwise/hardware/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Writes what products were measured to do into what plans read.
inline void set_product_rates(MeasuredRates& measured, std::vector<ProductRate> const& products, double share) {
    for (auto const& product : products) {
        bool const is_one_row = product.rows == 1;
        auto& rates = is_one_row ? measured.one_row : measured.products;
        for (auto const& each : calibrated_formats) {
            if (each.format == product.format) {
                rates.*each.rate = (is_one_row ? product.bytes : product.operations) * share;
            }
        }
    }
}

/// The processor with what was measured of it, as one of `ranks` that share it.
[[nodiscard]] inline Device measured_processor(Device device, Calibration const& calibration, std::int32_t ranks) {
    auto const share = 1.0 / ranks;
    auto& measured = device.measured;
    set_product_rates(measured, calibration.products, share);
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

/// Where describe_machine puts a detected accelerator, by its name ("cuda:0"): it has the devices that may be used, in their order.
///
/// Errors  no_such_device where it is not among those that were found and may be used
[[nodiscard]] inline Result<std::size_t> described_position(Detection const& detection, std::string_view id) {
    std::size_t at = 0;
    for (auto const& detected : detection.devices) {
        if (!detected.is_available) continue;
        if (detected.id == id) return at;
        ++at;
    }
    return Error{ErrorCode::no_such_device}
        .in("calibrate")
        .at(id)
        .because("is not among the devices that were found")
        .fix("see shardwise detect");
}

/// Writes what was measured of an accelerator into the description of the machine: its rates, and its way to the processor,
/// which was measured with it, as the slower of both directions. `machine` is describe_machine's of the same `detection`.
///
/// Errors  those of described_position
[[nodiscard]] inline Result<> add_measured(Topology& machine, Detection const& detection,
                                           DeviceCalibration const& calibration) {
    auto const found = described_position(detection, calibration.id());
    if (!found) return found.error();
    auto& device = machine.devices[*found];
    detail::set_product_rates(device.measured, calibration.products, 1.0);
    device.measured.bandwidth = calibration.memory;
    device.measured.launch = calibration.launch;
    auto const rates = std::min(calibration.attention.size(), device.measured.attention.size());
    device.measured.attention = {};
    std::copy_n(calibration.attention.begin(), rates, device.measured.attention.begin());
    auto const processor = described_position(detection, "cpu");
    if (!processor) return {};
    auto const first = static_cast<std::int32_t>(*found);
    auto const second = static_cast<std::int32_t>(*processor);
    auto const bandwidth = std::min(calibration.host_to_device, calibration.device_to_host);
    Link const measured{LinkType::pcie, bandwidth, calibration.copy_latency, true};
    for (auto& link : machine.links) {
        bool const is_same = link.first == first && link.second == second;
        if (!is_same && !(link.first == second && link.second == first)) continue;
        auto const type = link.link.type;
        link.link = measured;
        if (type != LinkType::none) link.link.type = type;
        return {};
    }
    machine.links.push_back({first, second, measured});
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
