// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/utf8.hpp>
#include <shardwise/json/detail/text.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The value of four hexadecimal digits, negative where they are none.
[[nodiscard]] inline std::int32_t hex_value(char const* at, char const* last) {
    if (last - at < 4) return -1;
    std::int32_t value = 0;
    for (int i = 0; i < 4; ++i) {
        auto const letter = at[i];
        auto const digit = letter >= '0' && letter <= '9'   ? letter - '0'
                           : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
                           : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10
                                                            : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/// The end of what stands at `at` within a JSON string: an escape, a surrogate pair of them, or a character. Null for the
/// closing quote, for the end of the text and for what no string may hold.
[[nodiscard]] inline char const* next_in_string(char const* at, char const* last) {
    if (at == last || *at == '"' || static_cast<unsigned char>(*at) < 0x20) return nullptr;
    if (*at != '\\') {
        auto const length = utf8_length({at, static_cast<std::size_t>(last - at)});
        return length == 0 ? nullptr : at + length;
    }
    if (last - at < 2) return nullptr;
    switch (at[1]) {
        case '"':
        case '\\':
        case '/':
        case 'b':
        case 'f':
        case 'n':
        case 'r':
        case 't': return at + 2;
        case 'u': break;
        default: return nullptr;
    }
    auto const value = hex_value(at + 2, last);
    if (value < 0 || (value >= 0xDC00 && value < 0xE000)) return nullptr;
    if (value < 0xD800 || value >= 0xE000) return at + 6;
    if (last - at < 8 || at[6] != '\\' || at[7] != 'u') return nullptr;
    auto const low = hex_value(at + 8, last);
    return low >= 0xDC00 && low < 0xE000 ? at + 12 : nullptr;
}

/// Skips what a JSON string may hold, up to `end` or a few bytes further; stops early where next_in_string is null.
[[nodiscard]] inline char const* skip_string(char const* at, char const* end, char const* last) {
    while (at < end) {
        at = skip_plain(at, end);
        auto const* const next = at < end ? next_in_string(at, last) : at;
        if (next == nullptr || next == at) break;
        at = next;
    }
    return at;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
