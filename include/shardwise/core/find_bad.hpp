// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The first element that is infinite or undefined; -1 where all are numbers. By bits: a program that is compiled with -ffast-math
/// believes that there are no such numbers.
[[nodiscard]] inline std::int64_t find_bad(float const* values, std::int64_t count) {
    constexpr std::uint32_t exponent = 0x7F80'0000U;
    constexpr std::int64_t block = 1024;
    for (std::int64_t begin = 0; begin < count; begin += block) {
        auto const end = std::min(begin + block, count);
        std::uint32_t most = 0;
        for (auto i = begin; i < end; ++i) most = std::max(most, std::bit_cast<std::uint32_t>(values[i]) & exponent);
        if (most < exponent) continue;
        for (auto i = begin; i < end; ++i) {
            if ((std::bit_cast<std::uint32_t>(values[i]) & exponent) == exponent) return i;
        }
    }
    return -1;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
