// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/preset.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// NVIDIA's GeForce and workstation cards. Memory is the total that nvidia-smi reports.
///
/// Rates are those of tensor cores that add in fp32, which GeForce halves; "AI
/// TOPS" of the vendor are int8 or fp4 with sparsity.
inline constexpr std::array<PresetRow, 16> rtx_presets{{
    {"RTX2080Ti", "sm_75", 11264, 616, {.fp32 = 13.4, .fp16 = 53.8, .int8 = 215.2}, pcie3, {},
     "NVIDIA Turing architecture whitepaper, appendix A; memory: nvidia-smi", "GeForce RTX 2080 Ti"},
    {"RTX3060", "sm_86", 12288, 360, {.fp32 = 12.7, .bf16 = 25.5, .int8 = 102}, pcie4, {},
     "NVIDIA GeForce RTX 3060 product page; products: GA102 whitepaper's ratios; memory: nvidia-smi", "GeForce RTX 3060"},
    {"RTX3080", "sm_86", 10240, 760, {.fp32 = 29.8, .bf16 = 59.5, .int8 = 238}, pcie4, {},
     "NVIDIA Ampere GA102 whitepaper, appendix A; memory: nvidia-smi", "GeForce RTX 3080"},
    {"RTX3090", "sm_86", 24576, 936, {.fp32 = 35.6, .bf16 = 71, .int8 = 284}, pcie4, {},
     "NVIDIA Ampere GA102 whitepaper, appendix A; memory: nvidia-smi", "GeForce RTX 3090"},
    {"A4000", "sm_86", 16376, 448, {.fp32 = 19.2, .bf16 = 76.7, .int8 = 153.4}, pcie4, {},
     "NVIDIA RTX A4000 data sheet; memory: nvidia-smi", "RTX A4000"},
    {"A5000", "sm_86", 24564, 768, {.fp32 = 27.8, .bf16 = 111.1, .int8 = 222.2}, pcie4, {},
     "NVIDIA RTX A5000 data sheet; memory: nvidia-smi", "RTX A5000"},
    {"A6000", "sm_86", 49140, 768, {.fp32 = 38.7, .bf16 = 154.8, .int8 = 309.7}, pcie4, {},
     "NVIDIA RTX A6000 data sheet; memory: nvidia-smi", "RTX A6000"},

    // Eight lanes only.
    {"RTX4060Ti-16GB", "sm_89", 16380, 288, {.fp32 = 22.1, .bf16 = 44.1, .fp8 = 88.3, .int8 = 176.5},
     {LinkType::pcie, 16 * giga, bus_latency}, {},
     "NVIDIA GeForce RTX 4060 Ti product page; products: Ada whitepaper's ratios; memory: nvidia-smi",
     "GeForce RTX 4060 Ti"},
    {"RTX4070", "sm_89", 12282, 504, {.fp32 = 29.1, .bf16 = 58.3, .fp8 = 116.6, .int8 = 233.2}, pcie4, {},
     "NVIDIA GeForce RTX 4070 product page; products: Ada whitepaper's ratios; memory: nvidia-smi", "GeForce RTX 4070"},
    {"RTX4080", "sm_89", 16376, 717, {.fp32 = 48.7, .bf16 = 97.5, .fp8 = 194.9, .int8 = 389.9}, pcie4, {},
     "NVIDIA Ada GPU architecture whitepaper, appendix A; memory: nvidia-smi", "GeForce RTX 4080"},
    {"RTX4090", "sm_89", 24564, 1008, {.fp32 = 82.6, .bf16 = 165.2, .fp8 = 330.3, .int8 = 660.6}, pcie4, {},
     "NVIDIA Ada GPU architecture whitepaper, appendix A; memory: nvidia-smi", "GeForce RTX 4090"},
    {"RTX6000-Ada", "sm_89", 49140, 960, {.fp32 = 91.1, .bf16 = 364.2, .fp8 = 728.5, .int8 = 728.5}, pcie4, {},
     "NVIDIA RTX 6000 Ada data sheet; memory: nvidia-smi", "RTX 6000 Ada Generation"},

    {"RTX5070Ti", "sm_120", 16303, 896, {.fp32 = 43.9, .bf16 = 87.9, .fp8 = 175.8, .int8 = 351.5, .fp4 = 703}, pcie5,
     {}, "NVIDIA RTX Blackwell whitepaper, appendix A; memory: nvidia-smi", "GeForce RTX 5070 Ti"},
    {"RTX5080", "sm_120", 16303, 960, {.fp32 = 56.3, .bf16 = 112.6, .fp8 = 225.1, .int8 = 450.2, .fp4 = 900.4}, pcie5,
     {}, "NVIDIA RTX Blackwell whitepaper, appendix A; memory: nvidia-smi", "GeForce RTX 5080"},
    {"RTX5090", "sm_120", 32607, 1792, {.fp32 = 104.8, .bf16 = 209.5, .fp8 = 419, .int8 = 838, .fp4 = 1676}, pcie5, {},
     "NVIDIA RTX Blackwell whitepaper, appendix A; memory: nvidia-smi", "GeForce RTX 5090"},
    {"RTX-PRO-6000-96GB", "sm_120", 97887, 1792,
     {.fp32 = 126, .bf16 = 503.8, .fp8 = 1007.6, .int8 = 1007.6, .fp4 = 2015.2}, pcie5, {},
     "NVIDIA RTX Blackwell PRO whitepaper; memory: nvidia-smi", "RTX PRO 6000 Blackwell Workstation Edition"},
}};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
