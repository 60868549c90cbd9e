// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/hardware/preset_rates.hpp>
#include <shardwise/hardware/system/processor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What Apple's kernel says of itself.
struct AppleSystem {
    /// "Apple M2 Ultra"; "" on other systems.
    std::string chip;
    Bytes memory{};
    int cores = 0;
    int threads = 0;
};

#if defined(__APPLE__)

namespace detail {

[[nodiscard]] inline std::int64_t sysctl_integer(char const* name) {
    std::int64_t wide = 0;
    std::size_t size = sizeof wide;
    if (::sysctlbyname(name, &wide, &size, nullptr, 0) != 0) return 0;
    // Shorter values fill the low half of a little-endian machine.
    return size == sizeof wide ? wide : wide & 0xFFFFFFFF;
}

}  // namespace detail

/// Asks sysctl.
[[nodiscard]] inline AppleSystem read_apple_system() {
    AppleSystem system;
    char chip[128]{};
    std::size_t size = sizeof chip - 1;
    if (::sysctlbyname("machdep.cpu.brand_string", chip, &size, nullptr, 0) == 0) system.chip = chip;
    system.memory = Bytes{detail::sysctl_integer("hw.memsize")};
    system.cores = static_cast<int>(detail::sysctl_integer("hw.physicalcpu"));
    system.threads = static_cast<int>(detail::sysctl_integer("hw.logicalcpu"));
    return system;
}

#else

/// No Apple system.
[[nodiscard]] inline AppleSystem read_apple_system() {
    return {};
}

#endif

/// The GPU of an Apple chip: 70 % of the unified memory, which leaves the system what it needs. Nothing on other
/// systems, and on Macs with Intel's processors.
///
/// Source  recommendedMaxWorkingSetSize is two thirds to three quarters of the memory, by the machine
[[nodiscard]] inline std::optional<DetectedDevice> metal_device(AppleSystem const& system) {
    constexpr std::string_view maker = "Apple ";
    if (system.chip.compare(0, maker.size(), maker) != 0 || system.memory <= Bytes{}) return std::nullopt;
    DetectedDevice found;
    found.id = "mps";
    found.name = system.chip;
    found.index = 0;
    found.device.name.assign(system.chip);
    found.device.kind = DeviceKind::metal;
    found.device.id = DeviceId::mps();
    found.device.memory = system.memory;
    take_preset_rates(found);
    found.device.memory = Bytes{system.memory.count() / 10 * 7};
    found.device.memory_free = found.device.memory;
    found.device.link = Link{LinkType::memory_bus, found.device.bandwidth, 1e-6};
    return found;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
