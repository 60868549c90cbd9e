// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The length of the well-formed UTF-8 sequence at `at`, 0 where there is none: no overlong forms, no surrogates.
///
/// Source  Unicode 15, table 3-7
[[nodiscard]] inline std::size_t utf8_length(char const* at, char const* last) {
    auto const left = static_cast<std::size_t>(last - at);
    auto const byte = [at](std::size_t i) { return static_cast<unsigned char>(at[i]); };
    auto const continues = [&byte](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
    if (left == 0) return 0;
    auto const lead = byte(0);
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    if (lead < 0xE0) return left >= 2 && continues(1) ? 2 : 0;
    if (lead < 0xF0) {
        if (left < 3 || !continues(1) || !continues(2)) return 0;
        if (lead == 0xE0 && byte(1) < 0xA0) return 0;
        if (lead == 0xED && byte(1) > 0x9F) return 0;
        return 3;
    }
    if (left < 4 || !continues(1) || !continues(2) || !continues(3)) return 0;
    if (lead == 0xF0 && byte(1) < 0x90) return 0;
    if (lead == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
}

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
