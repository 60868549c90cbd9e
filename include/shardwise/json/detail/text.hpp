// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Skips bytes that stand for themselves in a JSON string, eight at a time; stops at or before the first other one.
[[nodiscard]] inline char const* skip_plain(char const* at, char const* last) {
    constexpr std::uint64_t ones = 0x0101010101010101ULL;
    constexpr std::uint64_t highs = 0x8080808080808080ULL;
    constexpr auto zeros = [](std::uint64_t word) { return (word - ones) & ~word; };
    while (last - at >= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, 8);
        auto const control = (word - ones * 0x20) & ~word;
        auto const special = control | zeros(word ^ ones * 0x22) | zeros(word ^ ones * 0x5C) | word;
        if ((special & highs) != 0) break;
        at += 8;
    }
    return at;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
