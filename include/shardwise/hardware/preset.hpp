// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/device.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A well-known device. Add one: docs/how-to/add-a-device.md. Its texts are plain pointers: a string_view searches for
/// their ends at compile time, and every including program pays for that.
struct DevicePreset {
    Device device;
    /// Where its figures are published.
    char const* source = "";
    /// As its driver calls it, without the vendor's name before: "A100-SXM4-40GB", "GeForce RTX 4090".
    char const* driver_name = "";
};

namespace detail {

inline constexpr double giga = 1e9;
inline constexpr double tera = 1e12;

/// `figure` times `unit` as the decimal number that it is: 15.7 * 1e12 alone is 15699999999999.998.
[[nodiscard]] constexpr double scaled(double figure, double unit) {
    return static_cast<double>(static_cast<std::int64_t>(figure * unit + 0.5));
}

/// Latencies are those of a message between two devices through a library: 5 us over a fabric of the vendor's, 10 us
/// over PCIe or a network, the order that NCCL's send/recv shows.
inline constexpr double fabric_latency = 5e-6;
inline constexpr double bus_latency = 10e-6;

/// PCIe 3.0, 4.0 and 5.0 with 16 lanes carry 16, 32 and 64 GB/s in each direction.
///
/// Source  PCI-SIG, PCI Express Base Specification 5.0
inline constexpr Link pcie3{LinkType::pcie, 16 * giga, bus_latency};
inline constexpr Link pcie4{LinkType::pcie, 32 * giga, bus_latency};
inline constexpr Link pcie5{LinkType::pcie, 64 * giga, bus_latency};

/// What one GPU gives over NVLink in one direction: half of the figure that the vendor prints.
[[nodiscard]] constexpr Link nvlink(double gigabytes_per_second) {
    return {LinkType::nvlink, scaled(gigabytes_per_second, giga), fabric_latency};
}

/// One xGMI link in one direction; a device has one to each peer, so that it can use all of them at once.
[[nodiscard]] constexpr Link infinity_fabric(double gigabytes_per_second) {
    return {LinkType::infinity_fabric, scaled(gigabytes_per_second, giga), fabric_latency};
}

/// Chips of one package share its memory.
[[nodiscard]] constexpr Link unified_memory(double gigabytes_per_second) {
    return {LinkType::memory_bus, scaled(gigabytes_per_second, giga), 1e-6};
}

/// A GPU's share of its node's network, in the unit that vendors print.
[[nodiscard]] constexpr Link infiniband(double gigabits_per_second) {
    return {LinkType::infiniband, scaled(gigabits_per_second / 8, giga), bus_latency};
}
[[nodiscard]] constexpr Link ethernet(double gigabits_per_second) {
    return {LinkType::ethernet, scaled(gigabits_per_second / 8, giga), bus_latency};
}

/// Rates as data sheets print them.
///
/// Units  1e12 operations per second, without sparsity
struct Teraflops {
    double fp64 = 0.0;
    double fp32 = 0.0;
    double bf16 = 0.0;
    double fp16 = 0.0;
    double fp8 = 0.0;
    double int8 = 0.0;
    double fp4 = 0.0;
};

/// A row of a preset table; memory in MiB, as drivers report it, bandwidth in GB/s, as data sheets print it.
struct PresetRow {
    char const* name = "";
    char const* architecture = "";
    std::int64_t memory = 0;
    double bandwidth = 0.0;
    Teraflops peak{};
    Link link{};
    /// LinkType::none where the vendor has no reference node: then `default_network`.
    Link network{};
    char const* source = "";
    char const* driver_name = "";
};

[[nodiscard]] constexpr DevicePreset preset(DeviceKind kind, PresetRow const& row) {
    DevicePreset made{};
    made.device.name = row.name;
    made.device.kind = kind;
    made.device.memory = Bytes{row.memory << 20U};
    made.device.is_whole_memory = true;
    made.device.bandwidth = scaled(row.bandwidth, giga);
    made.device.peak.fp64 = scaled(row.peak.fp64, tera);
    made.device.peak.fp32 = scaled(row.peak.fp32, tera);
    made.device.peak.bf16 = scaled(row.peak.bf16, tera);
    made.device.peak.fp16 = scaled(row.peak.fp16, tera);
    made.device.peak.fp8 = scaled(row.peak.fp8, tera);
    made.device.peak.int8 = scaled(row.peak.int8, tera);
    made.device.peak.fp4 = scaled(row.peak.fp4, tera);
    made.device.link = row.link;
    made.device.network = row.network;
    made.device.architecture = row.architecture;
    made.source = row.source;
    made.driver_name = row.driver_name;
    return made;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
