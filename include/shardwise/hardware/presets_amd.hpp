// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/preset.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// AMD's Instinct accelerators and the Radeon cards that ROCm drives. fp32 and fp64 are the matrix cores' where they
/// have them. Memory is the total that ROCm reports: 16 MiB less than is installed, of a package twice that of its dies;
/// an APU's (MI300A) is all that it shares with the processor.
///
/// An MI250 or MI250X is two dies (GCDs), each a device of its own to every program with half of everything; the rows
/// without "GCD" are the package, as data sheets count.
///
/// The network is the GPU's share in a reference node: Frontier's 4 x 200 Gb/s for 4 packages; 400 Gb/s for each since
/// the MI300X.
inline constexpr std::array<PresetRow, 15> amd_presets{{
    {"MI50-32GB", "gfx906", 32752, 1024, {.fp64 = 6.6, .fp32 = 13.3, .fp16 = 26.5, .int8 = 53}, pcie4, {},
     "AMD Radeon Instinct MI50 data sheet", "Instinct MI50"},
    {"MI100-32GB", "gfx908", 32752, 1229, {.fp64 = 11.5, .fp32 = 46.1, .bf16 = 92.3, .fp16 = 184.6, .int8 = 184.6},
     infinity_fabric(46), {}, "AMD Instinct MI100 brochure; 3 links of 92 GB/s", "Instinct MI100"},
    {"MI210-64GB", "gfx90a", 65520, 1638, {.fp64 = 45.3, .fp32 = 45.3, .bf16 = 181, .int8 = 181}, infinity_fabric(50),
     {}, "AMD Instinct MI210 brochure; 3 links of 100 GB/s", "Instinct MI210"},
    {"MI250-128GB", "gfx90a", 131040, 3277, {.fp64 = 90.5, .fp32 = 90.5, .bf16 = 362.1, .int8 = 362.1},
     infinity_fabric(50), {}, "AMD Instinct MI250 data sheet, the package", ""},
    {"MI250X-128GB", "gfx90a", 131040, 3277, {.fp64 = 95.7, .fp32 = 95.7, .bf16 = 383, .int8 = 383},
     infinity_fabric(50), ethernet(200),
     "AMD Instinct MI250X data sheet, the package; network: OLCF Frontier user guide", ""},
    {"MI250X-GCD-64GB", "gfx90a", 65520, 1638, {.fp64 = 47.9, .fp32 = 47.9, .bf16 = 191.5, .int8 = 191.5},
     infinity_fabric(50), ethernet(100), "AMD Instinct MI250X data sheet, half; network: OLCF Frontier user guide",
     "Instinct MI250X"},
    {"MI300A-128GB", "gfx942", 131072, 5300,
     {.fp64 = 122.6, .fp32 = 122.6, .bf16 = 980.6, .fp8 = 1961.2, .int8 = 1961.2}, infinity_fabric(128), ethernet(200),
     "AMD Instinct MI300A data sheet; network: El Capitan, LLNL", "Instinct MI300A"},
    {"MI300X-192GB", "gfx942", 196592, 5300, {.fp64 = 163.4, .fp32 = 163.4, .bf16 = 1307, .fp8 = 2615, .int8 = 2615},
     infinity_fabric(64), ethernet(400),
     "AMD Instinct MI300X data sheet; network: MI300X cluster reference architecture", "Instinct MI300X"},
    {"MI325X-256GB", "gfx942", 262128, 6000, {.fp64 = 163.4, .fp32 = 163.4, .bf16 = 1307, .fp8 = 2615, .int8 = 2615},
     infinity_fabric(64), ethernet(400), "AMD Instinct MI325X data sheet; network: as the MI300X", "Instinct MI325X"},
    {"MI350X-288GB", "gfx950", 294896, 8000,
     {.fp64 = 72.1, .fp32 = 144.2, .bf16 = 2307, .fp8 = 4614, .int8 = 4614, .fp4 = 9227}, infinity_fabric(76.8),
     ethernet(400), "AMD Instinct MI350X data sheet; network: MI350 series platform", "Instinct MI350X"},
    {"MI355X-288GB", "gfx950", 294896, 8000,
     {.fp64 = 78.6, .fp32 = 157.3, .bf16 = 2517, .fp8 = 5033, .int8 = 5033, .fp4 = 10066}, infinity_fabric(76.8),
     ethernet(400), "AMD Instinct MI355X data sheet; network: MI350 series platform", "Instinct MI355X"},

    {"RX7900XTX", "gfx1100", 24560, 960, {.fp64 = 1.9, .fp32 = 61.4, .bf16 = 122.8, .int8 = 122.8}, pcie4, {},
     "AMD Radeon RX 7900 XTX product page", "Radeon RX 7900 XTX"},
    {"W7900-48GB", "gfx1100", 49136, 864, {.fp64 = 1.9, .fp32 = 61.3, .bf16 = 122.6, .int8 = 122.6}, pcie4, {},
     "AMD Radeon PRO W7900 product page", "Radeon PRO W7900"},
    {"RX9070XT", "gfx1201", 16304, 640, {.fp32 = 48.7, .bf16 = 195, .fp8 = 389, .int8 = 389}, pcie5, {},
     "AMD Radeon RX 9070 XT product page", "Radeon RX 9070 XT"},
    {"R9700-32GB", "gfx1201", 32752, 640, {.fp32 = 47.8, .bf16 = 191, .fp8 = 383, .int8 = 383}, pcie5, {},
     "AMD Radeon AI PRO R9700 product page", "Radeon AI PRO R9700"},
}};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
