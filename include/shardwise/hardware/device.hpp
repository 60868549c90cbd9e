// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/device_id.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/fixed_text.hpp>
#include <shardwise/hardware/attention_rate.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Which programming interface drives a device.
enum class DeviceKind : std::uint8_t { cpu, cuda, hip, metal, disk };

[[nodiscard]] constexpr std::string_view name_of(DeviceKind kind) {
    switch (kind) {
        case DeviceKind::cpu: return "cpu";
        case DeviceKind::cuda: return "cuda";
        case DeviceKind::hip: return "hip";
        case DeviceKind::metal: return "metal";
        case DeviceKind::disk: return "disk";
    }
    return "unknown";
}

/// Dense rates of the fastest unit for each element type; 0 where the device has no unit for it.
///
/// Units  operations per second, without sparsity
struct PeakRates {
    double fp32 = 0.0;
    /// 0 before Ampere and CDNA: such products run in fp32.
    double bf16 = 0.0;
    double fp8 = 0.0;
    double int8 = 0.0;
    /// 0: the same as bf16 (every unit since Ampere).
    double fp16 = 0.0;
    double fp64 = 0.0;
    double fp4 = 0.0;
    /// Of weights that are integers of 4 bits; 0: unpacked to half.
    double int4 = 0.0;

    /// The rate for products of `dtype`; a type that the device has no unit for runs at the next wider one's rate.
    [[nodiscard]] constexpr double of(Dtype dtype) const {
        auto const brain = bf16 > 0.0 ? bf16 : fp32;
        auto const half = fp16 > 0.0 ? fp16 : brain;
        auto const eighth = fp8 > 0.0 ? fp8 : half;
        switch (dtype) {
            case Dtype::f64: return fp64 > 0.0 ? fp64 : fp32;
            case Dtype::f32: return fp32;
            case Dtype::bf16: return brain;
            case Dtype::f8_e4m3:
            case Dtype::f8_e5m2:
            case Dtype::f8_e4m3fnuz:
            case Dtype::f8_e5m2fnuz:
            case Dtype::f6_e2m3:
            case Dtype::f6_e3m2: return eighth;
            case Dtype::f4: return fp4 > 0.0 ? fp4 : eighth;
            case Dtype::i8:
            case Dtype::u8: return int8 > 0.0 ? int8 : half;
            case Dtype::i4:
            case Dtype::u4: return int4 > 0.0 ? int4 : half;
            case Dtype::f16: case Dtype::f8_e8m0: case Dtype::i64: case Dtype::i32: case Dtype::i16: case Dtype::i2:
            case Dtype::u64: case Dtype::u32: case Dtype::u16: case Dtype::boolean: case Dtype::c64: case Dtype::c128:
            case Dtype::c32: case Dtype::quint8: case Dtype::qint8: case Dtype::qint32: case Dtype::quint4x2:
            case Dtype::quint2x4: case Dtype::bits8: case Dtype::bits16: case Dtype::bits1x8: case Dtype::bits2x4:
            case Dtype::bits4x2: break;
        }
        return half;
    }

    friend constexpr bool operator==(PeakRates const&, PeakRates const&) = default;
};

/// Every rate, with the element type that it is of.
struct PeakRate {
    Dtype dtype;
    double PeakRates::*rate;
};
inline constexpr PeakRate all_rates[] = {{Dtype::f32, &PeakRates::fp32},     {Dtype::bf16, &PeakRates::bf16},
                                         {Dtype::f8_e4m3, &PeakRates::fp8},  {Dtype::i8, &PeakRates::int8},
                                         {Dtype::f16, &PeakRates::fp16},     {Dtype::f64, &PeakRates::fp64},
                                         {Dtype::f4, &PeakRates::fp4},       {Dtype::i4, &PeakRates::int4}};

/// What a device was measured to do, where somebody measured it (`shardwise calibrate`); 0 where nobody did.
struct MeasuredRates {
    /// Large products, by element type.
    PeakRates products{};
    /// Reading its memory.
    ///
    /// Units  bytes per second
    double bandwidth = 0.0;
    /// From the call to the start of a kernel.
    ///
    /// Units  seconds
    double launch = 0.0;
    /// Weights that a product with one row gets through, by their element type.
    ///
    /// Units  bytes per second
    PeakRates one_row{};
    AttentionRates attention{};

    friend constexpr bool operator==(MeasuredRates const&, MeasuredRates const&) = default;
};

enum class LinkType : std::uint8_t { none, pcie, nvlink, infinity_fabric, ethernet, infiniband, memory_bus };

[[nodiscard]] constexpr std::string_view name_of(LinkType type) {
    switch (type) {
        case LinkType::none: return "none";
        case LinkType::pcie: return "pcie";
        case LinkType::nvlink: return "nvlink";
        case LinkType::infinity_fabric: return "infinity_fabric";
        case LinkType::ethernet: return "ethernet";
        case LinkType::infiniband: return "infiniband";
        case LinkType::memory_bus: return "memory_bus";
    }
    return "unknown";
}

/// How a device reaches another.
///
/// Units  bandwidth in bytes per second in one direction, latency in seconds
struct Link {
    LinkType type = LinkType::none;
    double bandwidth = 0.0;
    double latency = 0.0;
    /// The bandwidth is what collectives were measured to reach, not the vendor's figure.
    bool is_measured = false;

    friend constexpr bool operator==(Link const&, Link const&) = default;
};

/// A device as a value: what it can hold, how fast it is, and which one it is.
///
/// Units  memory in bytes, bandwidth in bytes per second
struct Device {
    FixedText<32> name;
    DeviceKind kind = DeviceKind::cuda;
    DeviceId id{};
    Bytes memory{};
    double bandwidth = 0.0;
    PeakRates peak{};
    /// To its peers in the same node.
    Link link{};
    /// Its node in a cluster of several.
    std::int32_t node = 0;
    /// Its own share of the node's way to other nodes; LinkType::none: unknown, and then `default_network`.
    Link network{};
    /// Free when it was looked at; negative where nobody looked: then all of it.
    Bytes memory_free{-1};
    /// Compute capability ("sm_90") or gfx name ("gfx942").
    FixedText<16> architecture{};
    /// As the driver writes it: "GPU-<uuid>", "MIG-<uuid>".
    FixedText<48> uuid{};
    /// "00000000:3B:00.0"
    FixedText<20> pci{};
    /// -1 where unknown.
    std::int32_t numa = -1;
    MeasuredRates measured{};
    /// True where `memory` is all that the device has, as a preset or a driver says it; false for a limit that somebody
    /// set.
    bool is_whole_memory = false;

    /// The free memory where it is known, else all.
    [[nodiscard]] constexpr Bytes available() const { return memory_free.count() < 0 ? memory : memory_free; }
    /// What a plan may use: of a whole memory the share `utilization`, never above what is free; of a limit all.
    [[nodiscard]] constexpr Bytes usable(double utilization) const {
        auto const share = share_of(memory, utilization);
        return is_whole_memory && share < available() ? share : available();
    }

    friend constexpr bool operator==(Device const&, Device const&) = default;
};

/// Why the ranks of tensor parallelism cannot be devices of a kind; empty where they can.
[[nodiscard]] constexpr std::string_view tensor_parallel_refusal(DeviceKind kind) {
    switch (kind) {
        case DeviceKind::metal: return "Metal shows a process one GPU, and has no collectives with another machine's";
        case DeviceKind::disk: return "a disk computes nothing";
        case DeviceKind::cpu: case DeviceKind::cuda: case DeviceKind::hip: break;
    }
    return {};
}

/// Between nodes of which nothing is said: 100 Gbit/s Ethernet.
inline constexpr Link default_network{LinkType::ethernet, 12.5e9, 10e-6};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
