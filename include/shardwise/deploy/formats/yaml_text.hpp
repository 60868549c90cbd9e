// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A text as a double-quoted YAML scalar: never a number, a date or a switch to its reader.
///
/// Source  YAML 1.2.2, 7.3.1
[[nodiscard]] inline std::string yaml_text(std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out = "\"";
    for (char const letter : text) {
        auto const byte = static_cast<unsigned char>(letter);
        if (letter == '"' || letter == '\\') {
            out += '\\';
            out += letter;
        } else if (byte < 0x20 || byte == 0x7F) {
            out += "\\x";
            out += digits[byte >> 4U];
            out += digits[byte & 15U];
        } else {
            out += letter;
        }
    }
    return out + "\"";
}

namespace detail {

/// The text with every occurrence of `mark` doubled: how formats write a mark that they would replace.
[[nodiscard]] inline std::string doubled(std::string_view text, char mark) {
    std::string out;
    for (char const letter : text) {
        out += letter;
        if (letter == mark) out += letter;
    }
    return out;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
