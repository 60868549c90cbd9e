// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <compare>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where a part of a model can live, in the order in which device maps are filled.
enum class DeviceClass : std::uint8_t { gpu, mps, cpu, disk };

/// A device as device maps name it: a numbered GPU, "mps", "cpu" or "disk".
///
/// Order  GPUs by number, then mps, cpu, disk: the order in which budgets are filled.
struct DeviceId {
    DeviceClass kind = DeviceClass::gpu;
    std::int32_t index = 0;

    [[nodiscard]] static constexpr DeviceId gpu(std::int32_t index) { return {DeviceClass::gpu, index}; }
    [[nodiscard]] static constexpr DeviceId mps() { return {DeviceClass::mps, 0}; }
    [[nodiscard]] static constexpr DeviceId cpu() { return {DeviceClass::cpu, 0}; }
    [[nodiscard]] static constexpr DeviceId disk() { return {DeviceClass::disk, 0}; }

    /// True for devices that compute at full speed: GPUs and mps.
    [[nodiscard]] constexpr bool is_accelerator() const {
        return kind == DeviceClass::gpu || kind == DeviceClass::mps;
    }

    friend constexpr auto operator<=>(DeviceId const&, DeviceId const&) = default;
    /// Not left to <=>: nvcc 13.0 calls that one and does not define it.
    friend constexpr bool operator==(DeviceId const&, DeviceId const&) = default;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
