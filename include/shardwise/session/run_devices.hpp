// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <algorithm>
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
    /// Among the numbers: a rank that computes on the processor. The ranks of a stage do so all or none.
    static constexpr std::int32_t processor = -1;

    DeviceVendor vendor = DeviceVendor::cuda;
    /// As the vendor counts them.
    std::vector<std::int32_t> numbers{};

    [[nodiscard]] bool empty() const { return numbers.empty(); }
    [[nodiscard]] std::int32_t of_rank(std::int32_t rank) const {
        return numbers[static_cast<std::size_t>(rank) % numbers.size()];
    }
    [[nodiscard]] bool is_processor(std::int32_t rank) const { return !empty() && of_rank(rank) == processor; }
    /// On how many devices so many ranks from `first` on are.
    [[nodiscard]] std::int32_t count_of(std::int32_t first, std::int32_t ranks) const {
        std::int32_t count = 0;
        for (auto number = numbers.begin(); number != numbers.end(); ++number) {
            if (std::find(numbers.begin(), number, *number) != number) continue;
            for (std::int32_t i = 0; i < ranks; ++i) {
                if (of_rank(first + i) != *number) continue;
                ++count;
                break;
            }
        }
        return count;
    }
    /// The most of so many ranks that share a device.
    [[nodiscard]] std::int32_t most_on_one(std::int32_t ranks) const {
        if (empty()) return ranks;
        std::int32_t most = 1;
        for (auto const number : numbers) {
            std::int32_t sharing = 0;
            for (std::int32_t rank = 0; rank < ranks; ++rank) {
                if (number != processor && of_rank(rank) == number) ++sharing;
            }
            most = std::max(most, sharing);
        }
        return most;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
