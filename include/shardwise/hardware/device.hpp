#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/device_id.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/fixed_text.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline v0 {

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

/// Dense peak rates of the fastest unit for each element type.
///
/// Units  operations per second
struct PeakRates {
    double fp32 = 0.0;
    double bf16 = 0.0;
    double fp8 = 0.0;
    double int8 = 0.0;

    /// The rate for products of `dtype`; a type that the device has no unit for runs at the next wider one's rate.
    [[nodiscard]] constexpr double of(Dtype dtype) const {
        switch (dtype) {
            case Dtype::f32:
            case Dtype::f64: return fp32;
            case Dtype::f8_e4m3:
            case Dtype::f8_e5m2: return fp8 > 0.0 ? fp8 : bf16;
            case Dtype::i8:
            case Dtype::u8: return int8 > 0.0 ? int8 : bf16;
            default: return bf16 > 0.0 ? bf16 : fp32;
        }
    }
};

enum class LinkType : std::uint8_t { none, pcie, nvlink, infinity_fabric, ethernet, infiniband, memory_bus };

/// How a device reaches its neighbours.
///
/// Units  bandwidth in bytes per second in one direction, latency in seconds
struct Link {
    LinkType type = LinkType::none;
    double bandwidth = 0.0;
    double latency = 0.0;
};

/// A device as a value: what it can hold and how fast it is.
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
};

}  // namespace shardwise::inline v0
