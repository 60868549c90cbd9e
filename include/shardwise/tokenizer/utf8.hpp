// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/utf8.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What stands for bytes that are no UTF-8.
inline constexpr char32_t replacement_character = 0xFFFD;

/// Takes one code point from the front of well-formed text.
[[nodiscard]] constexpr char32_t utf8_code_point(std::string_view text, std::size_t length) {
    auto const byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
    if (length == 1) return byte(0);
    if (length == 2) return (byte(0) & 0x1FU) << 6U | (byte(1) & 0x3FU);
    if (length == 3) return (byte(0) & 0x0FU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
    return (byte(0) & 0x07U) << 18U | (byte(1) & 0x3FU) << 12U | (byte(2) & 0x3FU) << 6U | (byte(3) & 0x3FU);
}

/// Appends a code point; one that Unicode does not have becomes the replacement character.
inline void append_utf8(std::string& text, char32_t code) {
    auto const put = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = replacement_character;
    if (code < 0x80) return put(code);
    if (code < 0x800) return put(0xC0U | code >> 6U), put(0x80U | (code & 0x3FU));
    if (code < 0x10000) {
        return put(0xE0U | code >> 12U), put(0x80U | (code >> 6U & 0x3FU)), put(0x80U | (code & 0x3FU));
    }
    put(0xF0U | code >> 18U), put(0x80U | (code >> 12U & 0x3FU));
    put(0x80U | (code >> 6U & 0x3FU)), put(0x80U | (code & 0x3FU));
}

/// The code points of a text; each longest beginning of one that is broken becomes one replacement character.
[[nodiscard]] inline std::u32string to_code_points(std::string_view text) {
    std::u32string out;
    out.reserve(text.size());
    while (!text.empty()) {
        if (auto const length = utf8_length(text); length != 0) {
            out += utf8_code_point(text, length);
            text.remove_prefix(length);
            continue;
        }
        std::size_t broken = 1;
        while (broken < text.size() && is_cut_utf8(text.substr(0, broken + 1))) ++broken;
        out += replacement_character;
        text.remove_prefix(broken);
    }
    return out;
}

[[nodiscard]] inline std::string to_utf8(std::u32string_view codes) {
    std::string out;
    out.reserve(codes.size());
    for (auto const code : codes) append_utf8(out, code);
    return out;
}

/// The text with what is no UTF-8 replaced.
[[nodiscard]] inline std::string to_valid_utf8(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        auto const length = utf8_length(text.substr(at));
        if (length == 0) return std::string(text.substr(0, at)) + to_utf8(to_code_points(text.substr(at)));
        at += length;
    }
    return std::string(text);
}

/// How many bytes at the end of a text begin a code point that is not complete: 0 to 3.
[[nodiscard]] constexpr std::size_t cut_utf8_tail(std::string_view text) {
    for (std::size_t count = 1; count <= 3 && count <= text.size(); ++count) {
        auto const tail = text.substr(text.size() - count);
        if (is_cut_utf8(tail)) return count;
        if ((static_cast<unsigned char>(tail[0]) & 0xC0U) != 0x80U) return 0;
    }
    return 0;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
