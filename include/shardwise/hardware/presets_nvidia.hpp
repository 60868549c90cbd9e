// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/preset.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// NVIDIA's data center GPUs. Memory is the total that nvidia-smi reports, with ECC where it is on by default: less than
/// the name says where the driver keeps some back.
///
/// Data sheets since Ampere print rates with sparsity: halved here. fp64 is the tensor
/// cores' where they have it. Cards with PCIe reach their peers over it; the bridges that some have join pairs only.
///
/// The network is the GPU's share in the vendor's reference node: DGX-1 and DGX-2 50 Gb/s, DGX A100 200 Gb/s, DGX H100,
/// H200 and B200 400 Gb/s, DGX B300 800 Gb/s, GB200 and GB300 NVL72 400 and 800 Gb/s.
inline constexpr std::array<PresetRow, 28> nvidia_presets{{
    {"P100-16GB", "sm_60", 16280, 732, {.fp64 = 4.7, .fp32 = 9.3, .fp16 = 18.7}, pcie3, {},
     "NVIDIA Tesla P100 data sheet (PCIe); memory: nvidia-smi", "Tesla P100-PCIE-16GB"},
    // Drivers before 2021 report 16160 and 32510 MiB.
    {"V100-16GB", "sm_70", 16384, 900, {.fp64 = 7.8, .fp32 = 15.7, .fp16 = 125}, nvlink(150), infiniband(50),
     "NVIDIA V100 data sheet (SXM2); network: DGX-1 data sheet; memory: nvidia-smi", "Tesla V100-SXM2-16GB"},
    {"V100-32GB", "sm_70", 32768, 900, {.fp64 = 7.8, .fp32 = 15.7, .fp16 = 125}, nvlink(150), infiniband(50),
     "NVIDIA V100 data sheet (SXM2); network: DGX-1 data sheet; memory: nvidia-smi", "Tesla V100-SXM2-32GB"},
    {"T4", "sm_75", 15360, 320, {.fp32 = 8.1, .fp16 = 65, .int8 = 130}, pcie3, {},
     "NVIDIA T4 data sheet; memory: nvidia-smi, with ECC", "Tesla T4"},

    {"A10", "sm_86", 23028, 600, {.fp32 = 31.2, .bf16 = 125, .int8 = 250}, pcie4, {},
     "NVIDIA A10 data sheet; memory: nvidia-smi, with ECC", "A10"},
    // Amazon's own: half of the A10's tensor cores, more clock.
    {"A10G", "sm_86", 23028, 600, {.fp32 = 35, .bf16 = 70, .int8 = 140}, pcie4, {},
     "NVIDIA A10G data sheet (AWS G5); memory: nvidia-smi, with ECC", "A10G"},
    // One of the four on the card.
    {"A16", "sm_86", 15356, 200, {.fp32 = 4.5, .bf16 = 17.9, .int8 = 35.9}, pcie4, {},
     "NVIDIA A16 data sheet, a quarter; memory: nvidia-smi, with ECC", "A16"},
    {"A30", "sm_80", 24576, 933, {.fp64 = 10.3, .fp32 = 10.3, .bf16 = 165, .int8 = 330}, pcie4, {},
     "NVIDIA A30 data sheet; memory: nvidia-smi", "A30"},
    {"A40", "sm_86", 46068, 696, {.fp32 = 37.4, .bf16 = 149.7, .int8 = 299.3}, pcie4, {},
     "NVIDIA A40 data sheet; memory: nvidia-smi, with ECC", "A40"},
    {"A100-40GB", "sm_80", 40960, 1555, {.fp64 = 19.5, .fp32 = 19.5, .bf16 = 312, .int8 = 624}, nvlink(300),
     infiniband(200), "NVIDIA A100 data sheet (SXM4); network: DGX A100 data sheet; memory: nvidia-smi", "A100-SXM4-40GB"},
    {"A100-80GB", "sm_80", 81920, 2039, {.fp64 = 19.5, .fp32 = 19.5, .bf16 = 312, .int8 = 624}, nvlink(300),
     infiniband(200), "NVIDIA A100 data sheet (SXM4); network: DGX A100 data sheet; memory: nvidia-smi", "A100-SXM4-80GB"},
    {"A100-PCIe-40GB", "sm_80", 40960, 1555, {.fp64 = 19.5, .fp32 = 19.5, .bf16 = 312, .int8 = 624}, pcie4, {},
     "NVIDIA A100 data sheet (PCIe); memory: nvidia-smi", "A100-PCIE-40GB"},
    {"A100-PCIe-80GB", "sm_80", 81920, 1935, {.fp64 = 19.5, .fp32 = 19.5, .bf16 = 312, .int8 = 624}, pcie4, {},
     "NVIDIA A100 data sheet (PCIe); memory: nvidia-smi", "A100 80GB PCIe"},

    {"H100-80GB", "sm_90", 81559, 3350, {.fp64 = 67, .fp32 = 67, .bf16 = 989, .fp8 = 1979, .int8 = 1979}, nvlink(450),
     infiniband(400), "NVIDIA H100 data sheet (SXM5); network: DGX H100 data sheet; memory: nvidia-smi", "H100 80GB HBM3"},
    {"H100-PCIe-80GB", "sm_90", 81559, 2000, {.fp64 = 51, .fp32 = 51, .bf16 = 756, .fp8 = 1513, .int8 = 1513}, pcie5,
     {}, "NVIDIA H100 data sheet (PCIe); memory: nvidia-smi", "H100 PCIe"},
    {"H100-NVL-94GB", "sm_90", 95830, 3900, {.fp64 = 60, .fp32 = 60, .bf16 = 835, .fp8 = 1671, .int8 = 1671}, pcie5, {},
     "NVIDIA H100 data sheet (NVL); memory: nvidia-smi", "H100 NVL"},
    // The H100 with half of its NVLink and no fp64 to speak of.
    {"H800-80GB", "sm_90", 81559, 3350, {.fp64 = 1, .fp32 = 67, .bf16 = 989, .fp8 = 1979, .int8 = 1979}, nvlink(200),
     infiniband(400), "NVIDIA H800 data sheet (SXM5); network: DeepSeek-V3 report, 3.1; memory: nvidia-smi", "H800"},
    {"H20-96GB", "sm_90", 97871, 4000, {.fp64 = 1, .fp32 = 44, .bf16 = 148, .fp8 = 296, .int8 = 296}, nvlink(450),
     infiniband(400), "NVIDIA H20 data sheet; memory: nvidia-smi; network: as HGX H100", "H20"},
    {"H200-141GB", "sm_90", 143771, 4800, {.fp64 = 67, .fp32 = 67, .bf16 = 989, .fp8 = 1979, .int8 = 1979}, nvlink(450),
     infiniband(400), "NVIDIA H200 data sheet (SXM5); memory: nvidia-smi; network: DGX H200 data sheet", "H200"},
    {"H200-NVL-141GB", "sm_90", 143771, 4800, {.fp64 = 60, .fp32 = 60, .bf16 = 835, .fp8 = 1671, .int8 = 1671}, pcie5,
     {}, "NVIDIA H200 data sheet (NVL); memory: nvidia-smi", "H200 NVL"},
    {"GH200-96GB", "sm_90", 97871, 4000, {.fp64 = 67, .fp32 = 67, .bf16 = 990, .fp8 = 1979, .int8 = 1979}, nvlink(450),
     infiniband(400), "NVIDIA GH200 data sheet (HBM3); memory: nvidia-smi", "GH200 480GB"},

    {"B200-180GB", "sm_100", 183359, 8000,
     {.fp64 = 37, .fp32 = 80, .bf16 = 2250, .fp8 = 4500, .int8 = 4500, .fp4 = 9000}, nvlink(900), infiniband(400),
     "NVIDIA DGX B200 data sheet, per GPU; fp64: HGX B200; memory: nvidia-smi", "B200"},
    // Blackwell Ultra gives int8's units to fp4: 0 here, though a thirtieth is left.
    {"B300-288GB", "sm_103", 275040, 8000, {.fp64 = 1.25, .fp32 = 75, .bf16 = 2250, .fp8 = 4500, .fp4 = 13500},
     nvlink(900), infiniband(800), "NVIDIA HGX B300 product page, per GPU; memory: nvidia-smi; network: DGX B300",
     "B300 SXM6 AC"},
    {"GB200-186GB", "sm_100", 189471, 8000,
     {.fp64 = 40, .fp32 = 80, .bf16 = 2500, .fp8 = 5000, .int8 = 5000, .fp4 = 10000}, nvlink(900), infiniband(400),
     "NVIDIA GB200 NVL72 data sheet, a 72nd; memory: nvidia-smi", "GB200"},
    {"GB300-288GB", "sm_103", 284208, 8000, {.fp64 = 1.3, .fp32 = 80, .bf16 = 2500, .fp8 = 5000, .fp4 = 15000},
     nvlink(900), infiniband(800), "NVIDIA GB300 NVL72 product page, a 72nd; memory: nvidia-smi", "GB300"},

    {"L4", "sm_89", 23034, 300, {.fp32 = 30.3, .bf16 = 121, .fp8 = 242, .int8 = 242}, pcie4, {},
     "NVIDIA L4 data sheet; memory: nvidia-smi, with ECC", "L4"},
    {"L40", "sm_89", 46068, 864, {.fp32 = 90.5, .bf16 = 181, .fp8 = 362, .int8 = 362}, pcie4, {},
     "NVIDIA L40 data sheet; memory: nvidia-smi, with ECC", "L40"},
    {"L40S", "sm_89", 46068, 864, {.fp32 = 91.6, .bf16 = 362, .fp8 = 733, .int8 = 733}, pcie4, {},
     "NVIDIA L40S data sheet; memory: nvidia-smi, with ECC", "L40S"},
}};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
