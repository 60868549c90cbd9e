// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/utf8.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

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

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
