// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How many bytes at the front of `text` form one code point; 0 where they are no UTF-8: no overlong forms, no surrogates.
///
/// Source  The Unicode Standard, table 3-7
[[nodiscard]] constexpr std::size_t utf8_length(std::string_view text) {
    auto const left = text.size();
    auto const byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
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

/// Whether the text is the beginning of one code point, and not all of it.
[[nodiscard]] constexpr bool is_cut_utf8(std::string_view text) {
    if (text.empty() || text.size() > 3) return false;
    auto const lead = static_cast<unsigned char>(text[0]);
    if (lead < 0xC2 || lead > 0xF4) return false;
    std::size_t const length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (text.size() >= length) return false;
    if (text.size() == 1) return true;
    // What is missing may be any byte that continues.
    char whole[4] = {'\x80', '\x80', '\x80', '\x80'};
    for (std::size_t i = 0; i < text.size(); ++i) whole[i] = text[i];
    return utf8_length({whole, length}) == length;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
