// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

struct AmdName {
    std::int64_t device_id = 0;
    std::string_view name;
};

/// The kernel's driver does not name its devices; these are the ones with presets.
///
/// Source  libdrm data/amdgpu.ids
inline constexpr std::array<AmdName, 15> amd_names{{
    {0x738c, "AMD Instinct MI100"},
    {0x7408, "AMD Instinct MI250X"},
    {0x740c, "AMD Instinct MI250X"},
    {0x740f, "AMD Instinct MI210"},
    {0x74a0, "AMD Instinct MI300A"},
    {0x74a1, "AMD Instinct MI300X"},
    {0x74a5, "AMD Instinct MI325X"},
    {0x75a0, "AMD Instinct MI350X"},
    {0x75a3, "AMD Instinct MI355X"},
    {0x744c, "AMD Radeon RX 7900 XTX"},
    {0x7448, "AMD Radeon PRO W7900"},
    {0x7550, "AMD Radeon RX 9070 XT"},
    {0x7551, "AMD Radeon AI PRO R9700"},
    {0x66a0, "AMD Instinct MI50"},
    {0x66a1, "AMD Instinct MI50"},
}};

/// A device's name by its PCI number.
[[nodiscard]] inline std::string amd_name(std::int64_t device_id) {
    for (auto const& row : amd_names) {
        if (row.device_id == device_id) return std::string(row.name);
    }
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text = "AMD GPU 0x";
    for (int shift = 12; shift >= 0; shift -= 4) text += digits[static_cast<std::size_t>(device_id >> shift & 15)];
    return text;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
