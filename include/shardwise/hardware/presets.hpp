// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/hardware/device.hpp>
#include <shardwise/hardware/meant_presets.hpp>
#include <shardwise/hardware/preset.hpp>
#include <shardwise/hardware/presets_amd.hpp>
#include <shardwise/hardware/presets_apple.hpp>
#include <shardwise/hardware/presets_nvidia.hpp>
#include <shardwise/hardware/presets_rtx.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

inline constexpr std::size_t preset_count =
    nvidia_presets.size() + rtx_presets.size() + amd_presets.size() + apple_presets.size();

[[nodiscard]] constexpr std::array<DevicePreset, preset_count> all_presets() {
    std::array<DevicePreset, preset_count> all{};
    std::size_t next = 0;
    for (auto const& row : nvidia_presets) all[next++] = preset(DeviceKind::cuda, row);
    for (auto const& row : rtx_presets) all[next++] = preset(DeviceKind::cuda, row);
    for (auto const& row : amd_presets) all[next++] = preset(DeviceKind::hip, row);
    for (auto const& row : apple_presets) all[next++] = preset(DeviceKind::metal, row);
    return all;
}

/// True where two names differ at most in case and separators: "A100-40GB", "a100_40gb".
[[nodiscard]] constexpr bool is_same_device_name(std::string_view a, std::string_view b) {
    std::size_t i = 0;
    std::size_t k = 0;
    while (true) {
        while (i < a.size() && is_name_separator(a[i])) ++i;
        while (k < b.size() && is_name_separator(b[k])) ++k;
        if (i == a.size() || k == b.size()) return i == a.size() && k == b.size();
        if (to_lower(a[i++]) != to_lower(b[k++])) return false;
    }
}

}  // namespace detail

/// Well-known devices: memory is the total that the driver reports (of Apple's chips, what is installed), rates are dense,
/// without sparsity.
///
/// Source  vendors' data sheets, named in each row
inline constexpr std::array<DevicePreset, detail::preset_count> device_presets = detail::all_presets();

/// The preset with this name, whatever its case and separators; a name without its memory ("H100") where one preset
/// only has it. Null where there is none.
[[nodiscard]] constexpr Device const* find_device_preset(std::string_view name) {
    Device const* only = nullptr;
    std::size_t count = 0;
    for (auto const& preset : device_presets) {
        auto const known = preset.device.name.view();
        // Most rows are told apart by a letter, which spares constant expressions the rest.
        if (name.empty() || to_lower(known[0]) != to_lower(name[0])) continue;
        if (detail::is_same_device_name(known, name)) return &preset.device;
        if (!detail::is_same_device_name(detail::without_memory(known), name)) continue;
        only = &preset.device;
        ++count;
    }
    return count == 1 ? only : nullptr;
}

/// The preset of a device that a driver names ("NVIDIA A100-SXM4-40GB", "AMD Instinct MI300X") with so much memory:
/// another amount is another product, but for Apple's chips. Null where there is none.
[[nodiscard]] constexpr Device const* find_device_preset_for(std::string_view driver_name, Bytes memory) {
    for (std::string_view const vendor : {"NVIDIA ", "AMD ", "Apple "}) {
        if (!equal_ignoring_case(driver_name.substr(0, vendor.size()), vendor)) continue;
        driver_name.remove_prefix(vendor.size());
        break;
    }
    for (auto const& preset : device_presets) {
        if (*preset.driver_name == '\0' || !detail::is_same_device_name(preset.driver_name, driver_name)) continue;
        auto const& device = preset.device;
        auto const gap = device.memory < memory ? memory - device.memory : device.memory - memory;
        if (device.kind == DeviceKind::metal || gap.count() <= device.memory.count() / 10) return &device;
    }
    return nullptr;
}

namespace detail {

/// Not constexpr: a constant expression that reaches it ends with an error that shows its name.
inline void device_preset_is_unknown(std::string_view) {}

template <std::size_t count>
[[nodiscard]] constexpr std::array<Device, count> repeated(Device const& device) {
    std::array<Device, count> devices{};
    for (std::size_t i = 0; i < count; ++i) {
        devices[i] = device;
        devices[i].id = DeviceId::gpu(static_cast<std::int32_t>(i));
    }
    return devices;
}

}  // namespace detail

/// `count` devices of one kind, numbered from 0. In a constant expression an unknown name stops the compilation.
///
/// Errors   unknown_name
/// Example  constexpr auto machine = repeat_device<2>("A100-80GB").value();
template <std::size_t count>
[[nodiscard]] constexpr Result<std::array<Device, count>> repeat_device(std::string_view preset) {
    if (auto const* const device = find_device_preset(preset)) return detail::repeated<count>(*device);
    if (std::is_constant_evaluated()) detail::device_preset_is_unknown(preset);
    Error error{ErrorCode::unknown_name};
    error.in(preset).because("is not the name of one device preset");
    return error.fix(did_you_mean(meant_presets(device_presets, preset)).view());
}

namespace presets {

inline constexpr auto three_a100_40gb = detail::repeated<3>(*find_device_preset("A100-40GB"));
inline constexpr auto four_a100_40gb = detail::repeated<4>(*find_device_preset("A100-40GB"));
inline constexpr auto eight_a100_80gb = detail::repeated<8>(*find_device_preset("A100-80GB"));
inline constexpr auto eight_h100_80gb = detail::repeated<8>(*find_device_preset("H100-80GB"));
inline constexpr auto two_rtx4090 = detail::repeated<2>(*find_device_preset("RTX4090"));
inline constexpr auto four_rtx4090 = detail::repeated<4>(*find_device_preset("RTX4090"));

}  // namespace presets

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
