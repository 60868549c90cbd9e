#pragma once

#include <shardwise/core/text.hpp>
#include <shardwise/hardware/device.hpp>

#include <array>
#include <cstddef>
#include <string_view>

namespace shardwise::inline v0 {

namespace detail {

inline constexpr double tera = 1e12;
inline constexpr double giga = 1e9;
inline constexpr double micro = 1e-6;

/// PCIe 4.0 and 5.0 x16 carry 32 and 64 GB/s in each direction (PCI-SIG); NVLink figures are half of the vendor's
/// bidirectional ones. Latencies: 10 us over PCIe and 5 us over NVLink, the order that NCCL's send/recv shows.
inline constexpr Link pcie4{LinkType::pcie, 32 * giga, 10 * micro};
inline constexpr Link pcie5{LinkType::pcie, 64 * giga, 10 * micro};

[[nodiscard]] constexpr Link nvlink(double gigabytes_per_second) {
    return {LinkType::nvlink, gigabytes_per_second * giga, 5 * micro};
}

}  // namespace detail

/// A device preset; `source` is where its figures are published.
struct DevicePreset {
    Device device;
    std::string_view source;
};

/// Well-known devices: memory as the driver reports it, dense rates without sparsity.
///
/// Source  vendors' data sheets, named in each row
inline constexpr std::array<DevicePreset, 16> device_presets{{
    {{"V100-16GB", DeviceKind::cuda, {}, 16_GiB, 900e9, {15.7e12, 125e12, 0, 0}, detail::nvlink(150)}, "NVIDIA V100 data sheet (SXM2)"},
    {{"V100-32GB", DeviceKind::cuda, {}, 32_GiB, 900e9, {15.7e12, 125e12, 0, 0}, detail::nvlink(150)}, "NVIDIA V100 data sheet (SXM2)"},
    {{"T4", DeviceKind::cuda, {}, 15_GiB, 320e9, {8.1e12, 65e12, 0, 130e12}, detail::pcie4}, "NVIDIA T4 data sheet; 15360 MiB with ECC"},
    {{"A100-40GB", DeviceKind::cuda, {}, 40_GiB, 1555e9, {19.5e12, 312e12, 0, 624e12}, detail::nvlink(300)}, "NVIDIA A100 data sheet (SXM4); 40960 MiB"},
    {{"A100-80GB", DeviceKind::cuda, {}, 80_GiB, 2039e9, {19.5e12, 312e12, 0, 624e12}, detail::nvlink(300)}, "NVIDIA A100 data sheet (SXM4); 81920 MiB"},
    {{"H100-80GB", DeviceKind::cuda, {}, 80_GiB, 3350e9, {67e12, 989e12, 1979e12, 1979e12}, detail::nvlink(450)}, "NVIDIA H100 data sheet (SXM5)"},
    {{"H200-141GB", DeviceKind::cuda, {}, Bytes{143771LL << 20U}, 4800e9, {67e12, 989e12, 1979e12, 1979e12}, detail::nvlink(450)}, "NVIDIA H200 data sheet (SXM5); 143771 MiB"},
    {{"B200-180GB", DeviceKind::cuda, {}, 180_GiB, 8000e9, {80e12, 2250e12, 4500e12, 4500e12}, detail::nvlink(900)}, "NVIDIA DGX B200 data sheet, per GPU"},
    {{"L4", DeviceKind::cuda, {}, 24_GiB, 300e9, {30.3e12, 121e12, 242e12, 242e12}, detail::pcie4}, "NVIDIA L4 data sheet"},
    {{"L40S", DeviceKind::cuda, {}, 48_GiB, 864e9, {91.6e12, 362e12, 733e12, 733e12}, detail::pcie4}, "NVIDIA L40S data sheet"},
    {{"RTX3090", DeviceKind::cuda, {}, 24_GiB, 936e9, {35.6e12, 71e12, 0, 284e12}, detail::pcie4}, "NVIDIA Ampere GA102 whitepaper"},
    {{"RTX4090", DeviceKind::cuda, {}, 24_GiB, 1008e9, {82.6e12, 165.2e12, 330.3e12, 660.6e12}, detail::pcie4}, "NVIDIA Ada GPU architecture whitepaper"},
    {{"RTX5090", DeviceKind::cuda, {}, 32_GiB, 1792e9, {104.8e12, 209.5e12, 419e12, 838e12}, detail::pcie5}, "NVIDIA RTX Blackwell whitepaper"},
    {{"MI250X-128GB", DeviceKind::hip, {}, 128_GiB, 3276e9, {47.9e12, 383e12, 0, 383e12}, {LinkType::infinity_fabric, 50e9, 5e-6}}, "AMD Instinct MI250X data sheet"},
    {{"MI300X-192GB", DeviceKind::hip, {}, 192_GiB, 5300e9, {163.4e12, 1307e12, 2615e12, 2615e12}, {LinkType::infinity_fabric, 64e9, 5e-6}}, "AMD Instinct MI300X data sheet"},
    {{"M2-Ultra-192GB", DeviceKind::metal, {}, 192_GiB, 800e9, {27.2e12, 27.2e12, 0, 0}, {LinkType::memory_bus, 800e9, 1e-6}}, "Apple M2 Ultra announcement"},
}};

/// The preset with this name, in any case; null where there is none.
[[nodiscard]] constexpr Device const* find_device_preset(std::string_view name) {
    for (auto const& preset : device_presets) {
        if (equal_ignoring_case(preset.device.name.view(), name)) return &preset.device;
    }
    return nullptr;
}

/// `count` devices of one kind, numbered from 0.
template <std::size_t count>
[[nodiscard]] constexpr std::array<Device, count> repeat_device(std::string_view preset) {
    std::array<Device, count> devices{};
    for (std::size_t i = 0; i < count; ++i) {
        devices[i] = *find_device_preset(preset);
        devices[i].id = DeviceId::gpu(static_cast<std::int32_t>(i));
    }
    return devices;
}

namespace presets {

inline constexpr auto three_a100_40gb = repeat_device<3>("A100-40GB");
inline constexpr auto four_a100_40gb = repeat_device<4>("A100-40GB");
inline constexpr auto eight_a100_80gb = repeat_device<8>("A100-80GB");
inline constexpr auto eight_h100_80gb = repeat_device<8>("H100-80GB");
inline constexpr auto two_rtx4090 = repeat_device<2>("RTX4090");
inline constexpr auto four_rtx4090 = repeat_device<4>("RTX4090");

}  // namespace presets

}  // namespace shardwise::inline v0
