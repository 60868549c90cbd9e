// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What one look at a device tells. What its vendor, its driver or this user's rights do not tell is empty, never 0.
struct DeviceSample {
    /// The share of time in which any kernel ran, which is not the share of the device that worked.
    ///
    /// Units  percent, as those of the next three
    std::optional<double> utilization{};
    /// Since the look before: processors with a warp, tensor cores at work, memory in transfer (NVIDIA: Hopper and later).
    std::optional<double> sm_activity{};
    std::optional<double> tensor_activity{};
    std::optional<double> dram_activity{};
    std::optional<Bytes> memory_used{};
    std::optional<Bytes> memory_total{};
    /// Units  degrees Celsius
    std::optional<double> temperature{};
    std::optional<double> memory_temperature{};
    /// Units  watts
    std::optional<double> power{};
    /// Since the first look, by the device's own counter, whose wraps and resets are taken out.
    ///
    /// Units  joules
    std::optional<double> energy{};
    /// Units  hertz
    std::optional<double> clock{};
    std::optional<double> memory_clock{};
    /// Why the clock is not higher, in NVML's bits; 0 is no reason, and known.
    std::optional<std::uint64_t> throttle_reasons{};
    /// Since the first look, by counters.
    ///
    /// Units  bytes
    std::optional<double> pcie_sent{};
    std::optional<double> pcie_received{};
    std::optional<double> nvlink_sent{};
    std::optional<double> nvlink_received{};
    /// How many processes have it open to compute.
    std::optional<std::int32_t> processes{};
    /// The device fell off the bus, now or before: all else is empty.
    bool is_lost = false;

    /// Units  percent
    [[nodiscard]] std::optional<double> memory_percent() const {
        if (!memory_used || !memory_total || memory_total->count() <= 0) return std::nullopt;
        return 100.0 * static_cast<double>(memory_used->count()) / static_cast<double>(memory_total->count());
    }
};
static_assert(std::is_trivially_copyable_v<DeviceSample>);

/// NVML's reasons in words: "power cap, thermal"; "" for none.
///
/// Source  nvmlClocksEventReason* of nvml.h, CUDA 12
[[nodiscard]] inline std::string throttle_text(std::uint64_t reasons) {
    struct Word {
        std::uint64_t bit;
        char const* text;
    };
    constexpr Word words[]{{0x1, "idle"},
                           {0x2, "application clocks"},
                           {0x4, "power cap"},
                           {0x8, "hardware slowdown"},
                           {0x10, "sync boost"},
                           {0x20, "thermal"},
                           {0x40, "hardware thermal"},
                           {0x80, "power brake"},
                           {0x100, "display clocks"}};
    std::string text;
    for (auto const& word : words) {
        if ((reasons & word.bit) != 0) text += (text.empty() ? "" : ", ") + std::string(word.text);
    }
    return text;
}

/// A device that is watched.
struct MonitoredDevice {
    /// "cuda:0", or the UUID where this process does not see it.
    std::string id;
    std::string name;
    std::string uuid;
    std::string pci;
    /// The GPU that this is a MIG instance of, else "".
    std::string parent;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
