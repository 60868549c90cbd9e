// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Whose devices ranks compute on.
enum class DeviceVendor : std::uint8_t { cuda, hip };

/// "cuda" or "hip".
[[nodiscard]] constexpr std::string_view name_of(DeviceVendor vendor) {
    return vendor == DeviceVendor::cuda ? "cuda" : "hip";
}

/// How ranks on devices add up.
enum class DeviceComm : std::uint8_t {
    automatic,  // peers where they are to be had, else staged
    peers,      // by kernels that reach the others' device memory
    staged,     // through the host's memory
    nccl,       // by the vendor's library
};

/// The devices that ranks compute on: rank r has numbers[r % numbers.size()]. None: the processor.
struct RunDevices {
    DeviceVendor vendor = DeviceVendor::cuda;
    /// As the vendor counts them.
    std::vector<std::int32_t> numbers{};

    [[nodiscard]] bool empty() const { return numbers.empty(); }
    [[nodiscard]] std::int32_t of_rank(std::int32_t rank) const {
        return numbers[static_cast<std::size_t>(rank) % numbers.size()];
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
